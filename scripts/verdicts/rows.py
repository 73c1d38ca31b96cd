"""Changes as rows for every output: severe changes one by one, the others counted."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scripts.verdicts.changes import Change, Kind

_MOST_NAMES = 3
_MOST_FIELDS = 4
_DONE = {
    Kind.SAFE: "safe",
    Kind.RESTARTS: "restarting",
    Kind.REPLACES: "replaced",
    Kind.DESTROYS: "destroyed",
}


@dataclass(frozen=True)
class Row:
    """One row of the list of changes."""

    kind: Kind
    action: str
    count: str
    """Number of resources, with their type unless `name` has it; empty for a single one."""
    name: str
    """Name of the resource, or what several have in common; may be empty."""
    why: str = ""
    names: tuple[str, ...] = ()
    """Changed properties, or names of several resources, if there is no `why`."""
    more: int = 0
    """Number of further resources that are not listed."""
    is_blocked: bool = False


def rows_of(changes: Sequence[Change]) -> list[Row]:
    """Return the rows of changes.

    A severe change has its own row. Objects that are re-created with their cluster share one row
    per cluster, created resources one per type, and safe updates one in total.
    """
    followers: dict[str, list[Change]] = {}
    made: dict[str, list[Change]] = {}
    updates: list[Change] = []
    found: list[Row] = []
    for each in changes:
        if each.follows:
            followers.setdefault(each.place, []).append(each)
        elif each.kind is not Kind.SAFE:
            found.append(_single(each))
        elif each.action == "create":
            made.setdefault(each.noun, []).append(each)
        else:
            updates.append(each)
    found += [_following(place, group) for place, group in followers.items()]
    found += [_alike("create", noun, group) for noun, group in made.items()]
    return [*found, *([_updated(updates)] if updates else [])]


def counted(changes: Sequence[Change]) -> str:
    """Return the numbers of changes, most severe first, as text; `no change` if there is none."""
    counts = Counter(each.kind for each in changes if not each.follows)
    followers = sum(each.follows for each in changes)
    words: list[str] = []
    for kind in reversed(Kind):
        words += [f"{counts[kind]} {_DONE[kind]}"] * bool(counts[kind])
        if kind is Kind.REPLACES and followers:
            words.append(f"{followers} re-created with their cluster")
    return ", ".join(words) or "no change"


def _single(change: Change) -> Row:
    shown = () if change.why else change.fields[:_MOST_FIELDS]
    more = 0 if change.why else len(change.fields) - len(shown)
    return Row(
        change.kind, change.action, "", change.title, change.why, shown, more, change.is_blocked
    )


def _following(place: str, group: list[Change]) -> Row:
    count = f"{len(group)} object{'s' * (len(group) != 1)} of"
    return Row(Kind.REPLACES, "replace", count, place, "re-created with their cluster")


def _alike(action: str, noun: str, group: list[Change]) -> Row:
    """Return the row of safe changes of one type."""
    if len(group) == 1:
        return _single(group[0])
    every = list(dict.fromkeys(each.name for each in group))
    more = max(0, len(every) - _MOST_NAMES)
    return Row(
        Kind.SAFE, action, str(len(group)), noun, names=tuple(every[:_MOST_NAMES]), more=more
    )


def _updated(group: list[Change]) -> Row:
    nouns = Counter(each.noun for each in group)
    if len(nouns) == 1:
        return _alike(group[0].action, group[0].noun, group)
    shown = tuple(f"{many} {noun}" for noun, many in nouns.most_common())
    return Row(Kind.SAFE, "update", f"{len(group)} resources", "", names=shown)
