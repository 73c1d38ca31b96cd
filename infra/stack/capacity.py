"""Capacity: named lists of rungs, tried from first to last."""

from pydantic import Field

from gke_inference.capacity.node_settings import NodeSettings
from gke_inference.capacity.settings import (
    MAX_RUNGS,
    MAX_SURGE,
    MAX_UNAVAILABLE,
    BlueGreen,
    PoolFloor,
    PoolNodes,
    UpgradeNodes,
)
from gke_inference.catalogue.rung_settings import RungSettings
from gke_inference.settings import Settings


class NodePools(Settings):
    """Node pools that the stack creates, one per rung. By default, GKE creates them on demand."""

    max_nodes: PoolNodes
    """Maximum nodes per pool."""
    min_nodes: PoolFloor = 0
    """Minimum nodes per pool."""
    max_surge: UpgradeNodes = MAX_SURGE
    """Nodes that an upgrade adds before it removes others. Each needs spare capacity."""
    max_unavailable: UpgradeNodes = MAX_UNAVAILABLE
    """Nodes that an upgrade may remove at a time. At least 1 if `max_surge` is 0."""
    blue_green: BlueGreen | None = None
    """Blue-green upgrades instead of `max_surge` and `max_unavailable`. They need as many machines
    again, so that reserved, flex-start and compact nodes and slices have none."""


class Capacity(Settings):
    """Rungs, in the order in which GKE tries them."""

    rungs: tuple[RungSettings, ...] = Field(min_length=1, max_length=MAX_RUNGS)
    """Rungs in order of preference. Ten is the practical limit of a compute class."""
    move_back: bool = False
    """Whether running replicas move back to an earlier rung when it has capacity again."""
    node_pools: NodePools | None = None
    """Creates the node pools with the stack, as models in the forms dual-container and dra require.
    By default, GKE creates them on demand."""
    nodes: NodeSettings | None = None
    """Kubelet, kernel, image and local SSDs of the nodes. Standard clusters only."""
    image_cache: bool = False
    """Whether GPU nodes attach the boot disk of `storage.image_cache`, which contains the engine
    images. Not shown to work on TPU nodes."""

    def rungs_in(self, region: str) -> dict[int, RungSettings]:
        """Return the rungs that a region has, by their index in the list."""
        return {at: rung for at, rung in enumerate(self.rungs) if rung.is_in(region)}

    @property
    def is_mixed(self) -> bool:
        """Whether its rungs have more than one kind of hardware."""
        return len({rung.kind for rung in self.rungs}) > 1
