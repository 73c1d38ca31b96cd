"""Networks that GKE creates for the accelerators of nodes, and the labels of those nodes. Pure.

Rules: `network.profile`, `network.claims`, `network.interfaces`.
"""

from collections.abc import Mapping

from gke_inference.catalogue.accelerators import AcceleratorNetwork, catalogue_labels
from gke_inference.catalogue.accelerators import machine as entry_of
from twin.world.machines import Machine

_ABLE = {"rdma", "tcpxo"}
_ABLE_TPUS = {"tpu-v6e", "tpu7x"}
_MOST_INTERFACES = 8
"""Of machines without interfaces for accelerators."""


def has_network_profile(item: Machine) -> bool:
    """Return whether GKE creates networks for the accelerators of a machine type."""
    network = network_of(item)
    return item.accelerator in _ABLE_TPUS or (network is not None and network.technology in _ABLE)


def network_of(item: Machine) -> AcceleratorNetwork | None:
    """Return the network that only the accelerators of a machine use."""
    return None if item.accelerator is None else entry_of(item.accelerator, item.name).network


def most_interfaces(item: Machine) -> int:
    """Return how many network interfaces a machine can have, the first one included.

    The first of the machines with interfaces for accelerators is for everything else; those with
    RDMA have a second one (rule network.interfaces).
    """
    network = network_of(item)
    if network is None:
        return max(2, min(item.vcpus, _MOST_INTERFACES))
    return network.nics + (2 if network.technology == "rdma" else 1)


def network_labels(profile: object, *, has_driver: bool) -> dict[str, str]:
    """Return the node labels for accelerator networks and the DRANET driver.

    Args:
        profile: Accelerator network profile, or None.
        has_driver: Whether the DRANET driver is enabled.
    """
    keys = catalogue_labels()
    found = {keys["accelerator_network"]: str(profile)} if profile else {}
    return found | ({keys["network_driver"]: "true"} if has_driver else {})


def claimable(item: Machine, labels: Mapping[str, str]) -> int:
    """Return how many RDMA interfaces the pods of a node can claim."""
    keys, network = catalogue_labels(), network_of(item)
    is_driven = labels.get(keys["network_driver"]) == "true"
    if network is None or network.technology != "rdma" or not is_driven:
        return 0
    return network.nics if labels.get(keys["accelerator_network"]) else 0
