"""Google's requirements for additional networks of a node pool, and for clusters with them."""

from collections.abc import Mapping

from twin.wire.property_values import (
    CloudError,
    Json,
    as_list,
    as_object,
    get_path,
    last_segment,
)
from twin.world.machines import UnknownMachineError, machine
from twin.world.node_networks import most_interfaces

_CONFIGS = "networkConfig.additionalNodeNetworkConfigs"


def check_multi_networking(inputs: Json) -> None:
    """Refuse multi-networking that a cluster cannot have (rule network.interfaces).

    Raises:
        CloudError: The cluster has no Dataplane V2.
    """
    if inputs.get("enableMultiNetworking") is not True or inputs.get("enableAutopilot") is True:
        return
    if inputs.get("datapathProvider") != "ADVANCED_DATAPATH":
        _refuse("Multi-networking requires GKE Dataplane V2.")


def check_interfaces(inputs: Json, cluster: Json, subnets: Mapping[str, str]) -> None:
    """Refuse additional networks that a pool cannot have (rule network.interfaces).

    Args:
        inputs: Of the node pool.
        cluster: Outputs of its cluster.
        subnets: Network of each subnet that it names, where the subnet is known.

    Raises:
        CloudError: The cluster, the machine or a network does not allow it.
    """
    configs = [as_object(each) or {} for each in as_list(get_path(inputs, _CONFIGS)) or []]
    if not configs:
        return
    if cluster.get("enableMultiNetworking") is not True:
        _refuse("Additional node networks require a cluster with multi-networking enabled.")
    if get_path(inputs, "networkConfig.acceleratorNetworkProfile"):
        _refuse("A pool has either an accelerator network profile or additional node networks.")
    networks = [last_segment(str(each.get("network"))) for each in configs]
    own = last_segment(str(cluster.get("network")))
    for name in networks:
        if networks.count(name) > 1 or name == own:
            _refuse(f"Networks of a node's interfaces must be different, got {name} twice.")
    for each, network in zip(configs, networks, strict=True):
        name = str(each.get("subnetwork"))
        if last_segment(subnets.get(name, network)) != network:
            _refuse(f"Subnetwork {last_segment(name)} does not belong to network {network}.")
    kind = str(get_path(inputs, "nodeConfig.machineType"))
    try:
        most = most_interfaces(machine(kind)) - 1
    except UnknownMachineError:
        return
    given = len(configs)
    if given > most:
        _refuse(f"Machine type {kind} has at most {most} additional interfaces, got {given}.")


def _refuse(message: str) -> None:
    raise CloudError(400, message, "badRequest")
