"""Settings of node pools and compute classes, which stacks and components share."""

from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import Field

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join
from gke_inference.catalogue.rungs import Rung
from gke_inference.settings import Settings, Word

PoolNodes = Annotated[int, Field(ge=1, le=1000)]
"""Maximum nodes of a pool."""
PoolFloor = Annotated[int, Field(ge=0, le=1000)]
"""Minimum nodes of a pool."""
UpgradeNodes = Annotated[int, Field(ge=0, le=20)]
"""Nodes that an upgrade adds or removes at a time."""
BootDiskGib = Annotated[int, Field(ge=20, le=65_536)]
"""Size of a boot disk in GiB."""
PodsPerNode = Annotated[int, Field(ge=8, le=256)]
"""Maximum pods of a node."""
MAX_SURGE: Final = 0
"""Scarce chips have no spare."""
MAX_UNAVAILABLE: Final = 1
MAX_RUNGS: Final = 10
"""Most rungs of a class: the practical limit of a compute class."""


SoakSeconds = Annotated[int, Field(ge=0, le=604_800)]
"""Pause of a blue-green upgrade in seconds, 7 days at most."""


class BlueGreen(Settings):
    """A blue-green upgrade: new nodes next to the old ones, which are removed in batches.

    Range of the pauses: docs.cloud.google.com/kubernetes-engine/docs/concepts/
    node-pool-upgrade-strategies, known, not re-read.
    """

    batch_nodes: UpgradeNodes = 1
    """Old nodes that are drained at a time."""
    batch_soak_seconds: SoakSeconds = 0
    """Pause after each batch, in seconds."""
    soak_seconds: SoakSeconds = 3600
    """Time for which the drained old nodes stay, in seconds, so that the upgrade can be undone."""


class GpuDriver(Word):
    """GPU drivers that GKE installs."""

    LATEST = "latest"
    DEFAULT = "default"
    DISABLED = "disabled"


class Unsatisfiable(Word):
    """Behavior when no rung has capacity."""

    DO_NOT_SCALE_UP = "do-not-scale-up"
    SCALE_UP_ANYWAY = "scale-up-anyway"


def check_upgrades(where: str, max_surge: int, max_unavailable: int) -> Iterator[InputError]:
    """Yield the problem of upgrade limits with which no node could be upgraded."""
    if not max_surge and not max_unavailable:
        rule = "must be at least 1 when max_surge is 0: nodes could not be upgraded"
        yield InputError(join(where, "max_unavailable"), rule, max_unavailable)


def check_blue_green(where: str, rung: Rung) -> Iterator[InputError]:
    """Yield the problem of a blue-green upgrade of a rung that cannot double its nodes.

    GKE has surge upgrades only for compact nodes (cluster-toolkit @1047080
    modules/compute/gke-node-pool); the others have no second set of machines.
    """
    why = ""
    if rung.is_slice:
        why = "a slice of several hosts, which is re-created as a whole"
    elif rung.placement == "compact":
        why = "compact nodes, which have only surge upgrades"
    elif rung.reservation is not None or rung.provisioning == "flex-start":
        why = f"{rung.provisioning} nodes, which have no second set of machines"
    if why:
        yield InputError(where, f"must not be set for {why}")


def check_limits(where: str, min_nodes: int, max_nodes: int) -> Iterator[InputError]:
    """Yield the problem of a minimum above the maximum."""
    if min_nodes > max_nodes:
        rule = f"must be at most max_nodes ({max_nodes})"
        yield InputError(join(where, "min_nodes"), rule, min_nodes)
