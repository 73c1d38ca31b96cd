"""Machine types without accelerators. Facts are in data/machine_types.yaml, with their source."""

import re
from functools import cache
from pathlib import Path
from typing import Any

from .data_file import read_table

_FILE = Path(__file__).parent / "data" / "machine_types.yaml"


@cache
def general_machine_types() -> tuple[str, ...]:
    """Return the predefined machine types without accelerators."""
    found: list[str] = []
    for family, shapes in _document()["families"].items():
        for shape, sizes in shapes.items():
            start = family if shape == "sizes" else f"{family}-{shape}"
            found += [f"{start}-{size}" for size in sizes]
    return tuple(found)


def is_general(machine_type: str) -> bool:
    """Return whether a machine type without accelerators exists, predefined or custom."""
    families = "|".join(_document()["custom"])
    custom = rf"(?:(?:{families})-)?custom-(?:\d+|micro|small|medium)-\d+(?:-ext)?"
    return machine_type in general_machine_types() or re.fullmatch(custom, machine_type) is not None


@cache
def _document() -> dict[str, Any]:
    return read_table(_FILE)
