"""The minimum of replicas that schedules of a stack ask for at a time."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from infra.plan import Plan


@dataclass(frozen=True)
class Scheduled:
    """The minimum of replicas of a scale target at a time."""

    target: str
    """Name of the Deployment, LeaderWorkerSet or RayClusterSet."""
    region: str
    minimum: int
    until: datetime | None
    """Time of the next change, on the clock of the schedule's time zone; None without one."""
    following: int
    """Minimum from then on."""
    time_zone: str

    def as_json(self) -> dict[str, Any]:
        """Return the data of `status -o json`."""
        return {
            "target": self.target,
            "region": self.region,
            "minimum": self.minimum,
            "until": None if self.until is None else self.until.isoformat(),
            "following": self.following,
            "time_zone": self.time_zone,
        }

    def __str__(self) -> str:
        """Return the line of `status`."""
        now = f"Schedule {self.target} in {self.region}: at least {self.minimum}"
        if self.until is None:
            return f"{now} at all times"
        return f"{now} until {self.until:%a %H:%M} ({self.time_zone}), then {self.following}"


def scheduled_now(plan: Plan, now: datetime) -> list[Scheduled]:
    """Return the minima of all scale targets with a schedule.

    Args:
        plan: Resolved stack.
        now: Time with its time zone.
    """
    return [
        Scheduled(
            role.deployments[kind],
            role.region,
            max(role.replicas.min, schedule.least_at(now)),
            change if change > now else None,
            max(role.replicas.min, schedule.least_at(change)),
            schedule.time_zone,
        )
        for every in plan.models.values()
        for model in every
        for role in model.roles
        for kind in role.deployments
        if (schedule := role.schedules.get(role.deployments[kind])) is not None
        for change in (schedule.next_change(now),)
    ]
