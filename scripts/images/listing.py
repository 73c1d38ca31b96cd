"""`gke-inference images list`: the images of a stack as a table and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scripts.images.actions import Row
from scripts.images.registry import Registry, RegistryError
from scripts.terminal.console import console
from scripts.terminal.tables import Column, Listing, figure, print_table

_GIB = 2**30


@dataclass(frozen=True)
class Size:
    """Size of an image that a node pulls, or why it is unknown."""

    bytes: int | None
    problem: str | None = None


def sizes_of(rows: Sequence[Row], registry: Registry) -> dict[str, Size]:
    """Return the sizes of images by name, from their registries."""
    found: dict[str, Size] = {}
    for row in rows:
        try:
            found[row.name] = Size(registry.size_bytes(row.reference))
        except RegistryError as error:
            reason = str(error).removeprefix(f"{row.reference}: ")
            found[row.name] = Size(
                None, reason.removeprefix(f"fetching manifest {row.reference}: ")
            )
    return found


def as_data(rows: Sequence[Row], sizes: dict[str, Size] | None) -> list[dict[str, Any]]:
    """Return a list as data, with the sizes if they are given."""
    return [_facts(row, sizes) for row in rows]


def _facts(row: Row, sizes: dict[str, Size] | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "image": row.name,
        "release": row.release or None,
        "is_pinned": row.is_pinned,
        "digest": row.digest,
        "reference": row.reference,
        "to_do": row.note or None,
    }
    if sizes is not None:
        size = sizes[row.name]
        facts |= {"size_bytes": size.bytes, "size_problem": size.problem}
    return facts


def print_list(rows: Sequence[Row], sizes: dict[str, Size] | None) -> None:
    """Print a list, and the reason for each unknown size."""
    table = Listing(
        "IMAGE", "RELEASE", "PINNED", *([] if sizes is None else [figure("GIB")]), "TO DO",
        Column("REFERENCE", spare=1),
    )  # fmt: skip
    for row in rows:
        pinned = "yes" if row.is_pinned else "no"
        gib = [] if sizes is None else [_gib(sizes[row.name])]
        table.add_row(row.name, row.release, pinned, *gib, row.note, row.reference)
    print_table(table)
    why: dict[str, list[str]] = {}
    for name, size in (sizes or {}).items():
        if size.problem is not None:
            why.setdefault(size.problem, []).append(name)
    for problem, names in why.items():
        console.print(
            f"?: {', '.join(names)}: {problem}", markup=False, style="dim", soft_wrap=True
        )


def _gib(size: Size) -> str:
    return "?" if size.bytes is None else f"{size.bytes / _GIB:.2f}"
