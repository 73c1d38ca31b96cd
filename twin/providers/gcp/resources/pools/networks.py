"""Google's requirements for a node pool whose accelerators have their own networks."""

from twin.wire.property_values import CloudError, Json, as_list, get_path
from twin.world.machines import UnknownMachineError, machine
from twin.world.node_networks import has_network_profile


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
