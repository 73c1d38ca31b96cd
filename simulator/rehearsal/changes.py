"""Changes of a platform by its owners, and the rules by which Kubernetes and GKE carry them out."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Rollout:
    """A new revision of a model's replicas, such as another image of its engine."""

    at: float
    """Seconds after the start of the traffic."""
    title: str
    workloads: frozenset[tuple[str, str]]
    """Names and regions of the workloads."""
    kinds: Mapping[int, int] = field(default_factory=dict[int, int])
    """Kinds of engines, each with the one that replaces it; others stay."""
    is_broken: bool = False
    """Whether the new revision never becomes ready."""


@dataclass(frozen=True)
class Canary:
    """A new division of a model's requests among its versions."""

    at: float
    title: str
    model: str
    versions: tuple[tuple[str, float], ...]
    """Pools with the share of the requests that each gets; they sum to 1."""


@dataclass(frozen=True)
class Upgrade:
    """An upgrade of the nodes of a region."""

    at: float
    title: str
    region: str
    until: float
    """Time from which no further node is begun: the end of the maintenance window."""


Change = Rollout | Canary | Upgrade


@dataclass(frozen=True)
class Surge:
    """How many nodes of a pool an upgrade replaces at once."""

    extra: int = 0
    """Nodes that are created before as many are removed."""
    unavailable: int = 1
    """Nodes that are removed before as many are created."""


@dataclass(frozen=True)
class Upgrades:
    """Surge settings of the pools of a region."""

    by_pool: Mapping[str, Surge] = field(default_factory=dict[str, Surge])
    created: Surge = field(default_factory=Surge)
    """Of the pools that GKE creates for compute classes."""


@dataclass(frozen=True)
class Rolling:
    """The update strategy of a Deployment or a LeaderWorkerSet."""

    surge: int | str = 0
    """Replicas above the wanted number, or a percentage such as `25%`."""
    unavailable: int | str = 1
    """Replicas of the wanted number that may not be ready."""

    def limits(self, wanted: int) -> tuple[int, int]:
        """Return surge and unavailability in replicas.

        As in Kubernetes (pkg/controller/deployment/util, ResolveFenceposts): percentages round up
        for the surge and down for the unavailability, and one replica may be unavailable where
        both are zero.
        """
        surge = _share(self.surge, wanted, rounds_up=True)
        unavailable = _share(self.unavailable, wanted, rounds_up=False)
        return (surge, unavailable) if surge or unavailable else (0, 1)


def _share(value: int | str, of: int, *, rounds_up: bool) -> int:
    if isinstance(value, int):
        return value
    percent = int(value.removesuffix("%")) * of
    return -(-percent // 100) if rounds_up else percent // 100


@dataclass(frozen=True)
class Counted:
    """Replicas of a workload that are not being deleted."""

    old_ready: int
    old_unready: int
    new_ready: int
    new_unready: int


def roll(rolling: Rolling, wanted: int, found: Counted) -> tuple[int, int, int]:
    """Return what a Deployment does next: replicas to create, and old ones to delete.

    The rules are those of kubernetes pkg/controller/deployment/rolling.go: reconcileNewReplicaSet,
    then cleanupUnhealthyReplicas and scaleDownOldReplicaSetsForRollingUpdate.

    Args:
        rolling: Update strategy.
        wanted: Number of replicas.
        found: Present replicas.

    Returns:
        New replicas to create, old replicas that are not ready to delete, and ready ones.
    """
    surge, unavailable = rolling.limits(wanted)
    new = found.new_ready + found.new_unready
    total = new + found.old_ready + found.old_unready
    created = max(0, min(wanted - new, wanted + surge - total))
    least = wanted - unavailable
    removable = max(0, total - least - found.new_unready)
    unready = min(found.old_unready, removable)
    spare = max(0, found.old_ready + found.new_ready - least)
    return created, unready, min(found.old_ready, spare, removable - unready)
