"""Differences between two versions of an object's inputs, including replacements."""

from dataclasses import dataclass
from typing import Any, Literal, cast

from twin.providers.kubernetes.manifests import fields, naming
from twin.providers.kubernetes.manifests.fields import Path

ChangeKind = Literal["add", "delete", "update"]


@dataclass(frozen=True)
class Change:
    """One property that differs."""

    path: Path
    kind: ChangeKind
    replaces: bool


@dataclass(frozen=True)
class Difference:
    """Everything that differs."""

    changes: tuple[Change, ...]
    delete_before_replace: bool

    @property
    def replaces(self) -> list[str]:
        """Paths whose change replaces the object."""
        return [fields.render(change.path) for change in self.changes if change.replaces]


def compare(
    old: dict[str, Any],
    new: dict[str, Any],
    *,
    replacing: list[Path],
    ignored: list[Path],
) -> Difference:
    """Compare inputs without secret wrappers.

    Args:
        old: inputs of the last update, or those found by a refresh.
        new: current inputs.
        replacing: patterns of paths that cannot be updated in place.
        ignored: paths that the program ignores.
    """
    changes = tuple(
        Change(path, kind, any(fields.touches(pattern, path) for pattern in replacing))
        for path, kind in _walk(_canonical(old), _canonical(new), ())
        if not any(fields.covers(pattern, path) for pattern in ignored)
    )
    same_identity = _identity(old) == _identity(new)
    return Difference(
        changes,
        delete_before_replace=same_identity
        and not naming.is_true(new, naming.AUTONAMED)
        and any(change.replaces for change in changes),
    )


def _identity(obj: dict[str, Any]) -> tuple[Any, Any]:
    metadata = fields.section(_canonical(obj), "metadata")
    return metadata.get("namespace"), metadata.get("name")


def _canonical(obj: dict[str, Any]) -> dict[str, Any]:
    """Return an object in which no namespace and `default` are the same."""
    metadata = fields.section(obj, "metadata")
    if metadata.get("namespace") != "default":
        return obj
    kept = {key: value for key, value in metadata.items() if key != "namespace"}
    return {**obj, "metadata": kept}


def _walk(old: Any, new: Any, path: Path) -> list[tuple[Path, ChangeKind]]:
    if isinstance(old, dict) and isinstance(new, dict):
        before = cast(dict[str, Any], old)
        after = cast(dict[str, Any], new)
        found: list[tuple[Path, ChangeKind]] = []
        for key in [*before, *(key for key in after if key not in before)]:
            found += _pair(before.get(key), after.get(key), (*path, key))
        return found
    if isinstance(old, list) and isinstance(new, list):
        first = cast(list[Any], old)
        second = cast(list[Any], new)
        found = []
        for index in range(max(len(first), len(second))):
            left = first[index] if index < len(first) else None
            right = second[index] if index < len(second) else None
            found += _pair(left, right, (*path, index))
        return found
    return [] if old == new else [(path, "update")]


def _pair(old: Any, new: Any, path: Path) -> list[tuple[Path, ChangeKind]]:
    if old is None and new is None:
        return []
    if old is None:
        return [(path, "add")]
    if new is None:
        return [(path, "delete")]
    return _walk(old, new, path)
