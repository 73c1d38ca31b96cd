"""`gke-inference docs`: the pages that are made from code and data."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from scripts.console import CommandError, console
from scripts.docs_components import components_page
from scripts.docs_stack import stack_page
from twin.paths import REPOSITORY
from twin.rules import all_rules

_NOTICE = "<!-- Made by `make docs`; change its source, not this page. -->\n\n"


def rules_page() -> str:
    """Return twin/rules.md: every rule the twin plays by, with its source."""
    lines = [
        "# The rules the twin plays by",
        "",
        "What the twin pretends, each with the public document it comes from. *Documented*: an",
        "official page or schema says so. *Observed*: somebody published a measurement. *Assumed*:",
        "nobody says; the text gives the reason. Durations are on Google's clock; the twin divides",
        "them by its speed, which `make up` prints. The data is [rules.yaml](rules.yaml).",
        "",
    ]
    area = ""
    for rule in all_rules().values():
        if rule.id.split(".")[0] != area:
            area = rule.id.split(".")[0]
            lines += [
                f"## {area}",
                "",
                "| rule | what | value | confidence | source |",
                "|---|---|---|---|---|",
            ]
        value = "" if rule.value is None else f"{rule.value} {rule.unit}".strip()
        cells = [f"`{rule.id}`", rule.text, value, rule.confidence, f"{rule.source} ({rule.date})"]
        lines.append("| " + " | ".join(cell.replace("|", "\\|").strip() for cell in cells) + " |")
    return _NOTICE + "\n".join(lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "twin/rules.md": rules_page,
    "docs/reference/components.md": lambda: _NOTICE + components_page(),
    "docs/reference/stack.md": lambda: _NOTICE + stack_page(),
}


def stale_pages(root: Path = REPOSITORY) -> list[str]:
    """Return the pages that differ from what their sources say now."""
    return [
        name
        for name, page in PAGES.items()
        if not (root / name).exists() or (root / name).read_text() != page()
    ]


def docs(
    check: Annotated[bool, typer.Option(help="Change nothing; exit code 2 if a page is stale.")] = (
        False
    ),
) -> None:
    """Write the pages that are made from code and data."""
    stale = stale_pages()
    if check and stale:
        raise CommandError(f"stale: {', '.join(stale)}; run `make docs`")
    for name in stale:
        (REPOSITORY / name).parent.mkdir(parents=True, exist_ok=True)
        (REPOSITORY / name).write_text(PAGES[name]())
        console.print(f"wrote {name}")
