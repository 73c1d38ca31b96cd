"""The layers of the repository, from the contracts that `make lint` checks."""

import tomllib
from typing import Any

from twin.host.paths import REPOSITORY

START = "<!-- layers: made by `make docs` from [tool.importlinter] in pyproject.toml -->"
END = "<!-- end of layers -->"


def code_structure_page() -> str:
    """Return docs/code-structure.md with an updated table of layers.

    Raises:
        ValueError: the markers of the table are missing.
    """
    text = (REPOSITORY / "docs" / "code-structure.md").read_text()
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"docs/code-structure.md: must contain {START!r} and {END!r}")
    return f"{before}{START}\n\n{layers_table()}\n{END}{after}"


def layers_table() -> str:
    """Return the contracts as a table: each layer may import the layers to its right."""
    lines = ["| where | layers, from the top: each may import the ones after it |", "|---|---|"]
    for contract in _contracts():
        layers = " → ".join(_layer(layer) for layer in contract["layers"])
        lines.append(f"| {contract['name']} | {layers} |")
    return "\n".join(lines) + "\n"


def _contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    return [contract for contract in contracts if contract["type"] == "layers"]


def _layer(layer: str) -> str:
    siblings = [f"`{name.strip()}`" for name in layer.split("|")]
    return ", ".join(siblings)
