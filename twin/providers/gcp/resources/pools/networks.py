"""What Google requires of the networks of node pools: profiles of networks, and quotas."""

from collections.abc import Callable

from twin.providers.gcp.schema import Resource
from twin.wire.property_values import CloudError, Json, as_list, get_path
from twin.world.capacity import World
from twin.world.machines import UnknownMachineError, machine
from twin.world.network_quota import QUOTAS, Profile, over_network_quota, pool_profile
from twin.world.node_networks import has_network_profile
from twin.world.store import Store


def check_networks(inputs: Json, cluster: Json) -> None:
    """Refuse a network profile that a pool cannot have (rule network.profile).

    Args:
        inputs: Of the node pool.
        cluster: Outputs of its cluster.

    Raises:
        CloudError: The profile, the machine, the zones or the cluster do not allow it.
    """
    profile = get_path(inputs, "networkConfig.acceleratorNetworkProfile")
    if not profile:
        return
    name = str(get_path(inputs, "nodeConfig.machineType"))
    if profile != "auto":
        _refuse(f"Invalid accelerator network profile {profile!r}: only 'auto' is supported.")
    try:
        is_able = has_network_profile(machine(name))
    except UnknownMachineError:
        is_able = False
    if not is_able:
        _refuse(f"Machine type {name} does not support accelerator network profiles.")
    zones = as_list(inputs.get("nodeLocations")) or as_list(cluster.get("nodeLocations")) or []
    if len(zones) != 1:
        listed = ", ".join(map(str, zones))
        _refuse(f"A pool with an accelerator network profile has one zone, got {listed}.")
    if cluster.get("datapathProvider") != "ADVANCED_DATAPATH":
        _refuse("Accelerator network profiles require GKE Dataplane V2.")


def _refuse(message: str) -> None:
    raise CloudError(400, message, "badRequest")


def check_network_quota(
    known: Resource, inputs: Json, project: str, store: Store, world: Callable[[], World]
) -> None:
    """Refuse networks beyond a quota (rule quota.networks).

    Raises:
        CloudError: In Google's wording.
    """
    new: Profile | str | None = QUOTAS.get(known.token)
    if new is None and known.kind == "container/nodePool":
        new = pool_profile(inputs)
    problem = None if new is None else over_network_quota(world(), store, project, new)
    if problem is not None:
        raise CloudError(403, problem, "quotaExceeded")
