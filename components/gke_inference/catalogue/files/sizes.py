"""Capacities that a file system can have: ranges, each with its step."""

import math
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

    def smallest(self, gib: float) -> int | None:
        """Return the smallest capacity in GiB with room for `gib`, or None if there is none."""
        for least, most, step in self.ranges:
            capacity = least + step * max(0, math.ceil((gib - least) / step))
            if capacity <= most:
                return capacity
        return None

    @property
    def words(self) -> str:
        """Return the capacities as text."""
        return ", or ".join(
            f"{least} to {most}" + (f" in steps of {step}" if step > 1 else "")
            for least, most, step in self.ranges
        )
