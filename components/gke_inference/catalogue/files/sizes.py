"""Capacities that a file system can have: ranges, each with its step."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """Capacity ranges in GiB."""

    ranges: tuple[tuple[int, int, int], ...]
    """Minimum, maximum, and step from the minimum."""

    def allow(self, capacity_gib: int) -> bool:
        """Return whether a file system may have a capacity in GiB."""
        return any(
            least <= capacity_gib <= most and (capacity_gib - least) % step == 0
            for least, most, step in self.ranges
        )

    @property
    def words(self) -> str:
        """Return the capacities as text."""
        return ", or ".join(
            f"{least} to {most}" + (f" in steps of {step}" if step > 1 else "")
            for least, most, step in self.ranges
        )
