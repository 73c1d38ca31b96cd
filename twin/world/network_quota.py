"""Quotas of networks and subnets: what a project has, and what GKE creates for accelerators.

Rule: `quota.networks`.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from gke_inference.catalogue.quotas import profile_networks
from twin.wire.property_values import Json, as_list, get_path, last_segment
from twin.world.capacity import World, quota_message
from twin.world.machines import UnknownMachineError, machine
from twin.world.node_networks import network_of
from twin.world.store import Store

QUOTAS: Final = {
    "gcp:compute/network:Network": "NETWORKS",
    "gcp:compute/subnetwork:Subnetwork": "SUBNETWORKS",
}
"""Quota that a resource counts against, by type."""
_POOL: Final = "gcp:container/nodePool:NodePool"


@dataclass(frozen=True)
class Profile:
    """The networks of the accelerators of one machine type, in one zone of a cluster."""

    cluster: str
    zone: str
    machine: str

    @property
    def amounts(self) -> dict[str, int]:
        """What GKE creates for it, by quota; nothing for TPUs and unknown machines."""
        try:
            network = network_of(machine(self.machine))
        except UnknownMachineError:
            return {}
        return {} if network is None else profile_networks(network)


def pool_profile(inputs: Json) -> Profile | None:
    """Return the profile of a node pool, or None if its accelerators have no networks."""
    if not get_path(inputs, "networkConfig.acceleratorNetworkProfile"):
        return None
    zones = as_list(inputs.get("nodeLocations")) or [inputs.get("location")]
    name = str(get_path(inputs, "nodeConfig.machineType"))
    return Profile(last_segment(str(inputs.get("cluster"))), str(zones[0]), name)


def over_network_quota(
    world: World,
    store: Store,
    project: str,
    new: Profile | str,
    others: Collection[Profile] = (),
) -> str | None:
    """Return the error of networks beyond a quota, or None.

    Args:
        world: The world, with its limits.
        store: The resources of the twin.
        project: Project of the networks.
        new: Profile to create networks for, or the quota of one network or subnet.
        others: Profiles of nodes that GKE created for compute classes.
    """
    limits = [line for line in world.quota if line.metric in QUOTAS.values()]
    if not limits:
        return None
    profiles = {*_of_pools(store, project), *others}
    if new in profiles:
        return None
    added = {new: 1} if isinstance(new, str) else new.amounts
    used = Counter(added)
    for token, quota in QUOTAS.items():
        used[quota] += sum(each.project == project for each in store.find(token))
    for profile in profiles:
        used.update(profile.amounts)
    over = (each for each in limits if each.metric in added and used[each.metric] > each.most)
    line = next(over, None)
    return None if line is None else quota_message(line)


def _of_pools(store: Store, project: str) -> Iterator[Profile]:
    for record in store.find(_POOL):
        profile = pool_profile(record.inputs) if record.project == project else None
        if profile is not None:
            yield profile
