"""Lookup of the resources of a cloud by their references."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from twin.providers.gcp.checks.suppress import relative_path
from twin.wire.property_values import Json, as_list, as_object
from twin.world.store import Record


@dataclass(frozen=True)
class Cloud:
    """Lookup of a cloud's resources by their references."""

    records: tuple[Record, ...]

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Cloud":
        """Return the existing resources, without those that are being created or deleted."""
        gone = ("creating", "deleting")
        return cls(tuple(each for each in records if each.status not in gone))

    def named(self, value: object, types: set[str]) -> Record | None:
        """Return a resource by link, ID or name."""
        path = relative_path(str(value or ""))
        found = [each for each in self.records if each.type in types]
        for each in found:
            if each.id == path or each.id.endswith(f"/{path}"):
                return each
        return None


def objects(value: Mapping[str, object], key: str) -> list[Json]:
    """Return the objects in a list of a value."""
    found = [as_object(each) for each in as_list(value.get(key)) or []]
    return [each for each in found if each is not None]
