"""The record of public names, with which the code is compared.

`record.txt` has one line per name: its class, its kind and the name. `make docs` adds new names. A
stable name stays in it although the code no longer has it, once there is a release, until a
released version has warned of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from scripts.release.surface.classes import Classes, Stability, classes
from scripts.release.surface.names import Kind, public_names

RECORD: Final = Path(__file__).with_name("record.txt")


@cache
def named() -> tuple[str, ...]:
    """Return the public names of the code, each with its kind, in the order of the record."""
    return tuple(f"{kind} {name}" for kind, names in public_names().items() for name in names)


def recorded(text: str) -> dict[str, Stability]:
    """Return the names of a record, with their classes."""
    pairs = (line.split(" ", 1) for line in text.splitlines() if line)
    return {name: Stability(word) for word, name in pairs}


def read_record() -> dict[str, Stability]:
    """Return the names of the record in the repository; none if there is no file."""
    return recorded(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def record_text() -> str:
    """Return the text of the record for the code as it is, and for the record as it was."""
    return text_of(named(), read_record(), classes())


def text_of(names: Iterable[str], before: Mapping[str, Stability], known: Classes) -> str:
    """Return the text of a record.

    Args:
        names: Public names of the code, each with its kind.
        before: The record before.
        known: Classes and deprecations.
    """
    found = {name: known.stability_of(name) for name in names}
    if known.released is not None:
        for name in _lost(found, before, known):
            found[name] = before[name]
        for name in _late(found, before, known):
            found[name] = before[name]
    kinds = list(Kind)
    in_order = sorted(found, key=lambda name: (kinds.index(Kind(name.split(" ", 1)[0])), name))
    return "".join(f"{found[name]} {name}\n" for name in in_order)


def breaks(names: Iterable[str], before: Mapping[str, Stability], known: Classes) -> list[str]:
    """Return what the code breaks of its record: one line per name, empty if nothing.

    Before the first release, every name of the record must still be in the code too: removing
    one takes a new record.
    """
    present = {name: known.stability_of(name) for name in names}
    found = [_sentence(name, known) for name in _lost(present, before, known)]
    late = _late(present, before, known)
    return found + [f"{name}: was stable, and must be so or be deprecated first" for name in late]


def _lost(
    present: Mapping[str, Stability], before: Mapping[str, Stability], known: Classes
) -> Iterator[str]:
    """Yield the promised names of a record that the code does not have."""
    for name, was in before.items():
        if name in present or was in (Stability.BETA, Stability.EXPERIMENTAL):
            continue
        deprecation = known.deprecation_of(name) if was is Stability.DEPRECATED else None
        if deprecation is None or not known.is_over(deprecation):
            yield name


def _late(
    present: Mapping[str, Stability], before: Mapping[str, Stability], known: Classes
) -> Iterator[str]:
    """Yield the stable names of a record that a release cannot have warned of any more."""
    for name, was in before.items():
        now = present.get(name, Stability.STABLE)
        if known.released is None or was is not Stability.STABLE or now is Stability.STABLE:
            continue
        deprecation = known.deprecation_of(name)
        if deprecation is None or known.is_over(deprecation):
            yield name


def _sentence(name: str, known: Classes) -> str:
    if known.released is None:
        return f"{name}: is in the record and not in the code; run `make docs` if that is meant"
    return (
        f"{name}: is gone without a release that warned of it; keep it, and deprecate it with its "
        "replacement"
    )
