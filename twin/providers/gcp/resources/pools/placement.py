"""Google's requirements for a node pool whose nodes are placed close to each other."""

from twin.wire.property_values import CloudError, Json, as_list, get_path
from twin.world.machines import UnknownMachineError, machine
from twin.world.node_placement import has_compact_placement


def check_placement(inputs: Json, cluster: Json) -> None:
    """Refuse a compact placement that a pool cannot have (rule placement.compact).

    Args:
        inputs: Of the node pool.
        cluster: Outputs of its cluster.

    Raises:
        CloudError: The machine, its provisioning, the zones or the upgrades do not allow it.
    """
    if get_path(inputs, "placementPolicy.type") != "COMPACT":
        return
    name = str(get_path(inputs, "nodeConfig.machineType") or "e2-medium")
    try:
        item = machine(name)
    except UnknownMachineError:
        return  # a type of a naming rule that nobody here knows
    if item.kind == "tpu":
        return  # a slice is placed as a whole
    is_flex = bool(get_path(inputs, "nodeConfig.flexStart"))
    if get_path(inputs, "queuedProvisioning.enabled"):
        _refuse("Compact placement is not supported with queued provisioning.")
    if not has_compact_placement(item, flex=is_flex):
        how = " with flex-start" if is_flex else ""
        _refuse(f"Machine type {name} does not support compact placement{how}.")
    zones = as_list(inputs.get("nodeLocations")) or as_list(cluster.get("nodeLocations")) or []
    if len(zones) != 1:
        listed = ", ".join(map(str, zones))
        _refuse(f"A node pool with compact placement must be in one zone, got {listed}.")
    if get_path(inputs, "upgradeSettings.strategy") == "BLUE_GREEN":
        _refuse("Node pools with compact placement support only surge upgrades.")


def _refuse(message: str) -> None:
    raise CloudError(400, message, "badRequest")
