"""The VPC of a cluster in the twin's cloud, with the rules that filter traffic of its pods."""

from collections.abc import Iterable
from ipaddress import IPv4Network
from typing import Any

from twin.cluster.base.context import ClusterSpec
from twin.cluster.base.pod_network import cluster_record, enforces_policies
from twin.cluster.gateway.translation.vpc import (
    ANYWHERE,
    ClusterNetwork,
    Direction,
    firewall_rules,
)
from twin.host.paths import TwinPaths
from twin.wire.property_values import as_list, as_object, get_path, last_segment
from twin.world.store import Record, Store

_FIREWALL = "gcp:compute/firewall:Firewall"
_NETWORK = "gcp:compute/network:Network"
_SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"


def network_of(paths: TwinPaths, spec: ClusterSpec) -> ClusterNetwork | None:
    """Return the VPC of a cluster; None if the twin's cloud does not have it.

    The rules of a network that only capacity.yaml lists are not known (rule network.firewall).
    """
    if not paths.cloud_db.exists():
        return None
    store = Store(paths.cloud_db)
    cluster = cluster_record(store, spec)
    if cluster is None:
        return None
    given = str(cluster.inputs.get("network") or "").partition("/compute/v1/")
    path = given[2] or given[0]
    if not path.startswith("projects/"):
        path = f"projects/{spec.project}/global/networks/{path}"
    network = store.get(_NETWORK, path)
    if network is None:
        return None
    used = {(use.type, use.id) for use in store.users(_NETWORK, network.id)}
    walls = [_plain(each) for each in store.find(_FIREWALL) if (each.type, each.id) in used]
    subnets = [each for each in store.find(_SUBNETWORK) if (each.type, each.id) in used]
    nodes, pods = _ranges(cluster, subnets, spec.region)
    return ClusterNetwork(
        name=network.id,
        rules=tuple(rule for each in walls for rule in firewall_rules(each, Direction.INGRESS)),
        proxies=tuple(
            str(record.inputs.get("ipCidrRange"))
            for record in subnets
            if _serves(record, spec.region)
        ),
        is_shared=network.id.split("/")[1] != spec.project,
        enforces_policies=enforces_policies(spec, cluster),
        leaving=tuple(rule for each in walls for rule in firewall_rules(each, Direction.EGRESS)),
        nodes=nodes,
        pods=pods,
    )


def _plain(record: Record) -> dict[str, Any]:
    """Return the inputs of a firewall with lists of mappings."""
    lists = ("allows", "denies", *Direction.INGRESS.value)
    return {**record.inputs, **{name: as_list(record.inputs.get(name)) or [] for name in lists}}


def _ranges(
    cluster: Record, subnets: Iterable[Record], region: str
) -> tuple[IPv4Network, IPv4Network]:
    """Return the ranges of a cluster's nodes and pods; of its subnet, if the cloud has that."""
    name = last_segment(str(cluster.inputs.get("subnetwork") or ""))
    pods = get_path(cluster.inputs, "ipAllocationPolicy.clusterSecondaryRangeName")
    for subnet in subnets:
        if subnet.name != name or last_segment(str(subnet.inputs.get("region"))) != region:
            continue
        second = {
            each.get("rangeName"): each.get("ipCidrRange")
            for item in as_list(subnet.inputs.get("secondaryIpRanges")) or []
            if (each := as_object(item))
        }
        found = (subnet.inputs.get("ipCidrRange"), second.get(pods))
        first, last = (IPv4Network(str(each)) if each else ANYWHERE for each in found)
        return first, last
    return ANYWHERE, ANYWHERE


def _serves(record: Record, region: str) -> bool:
    """Return whether a subnet is that of proxies which reach the pods of a region."""
    purpose, role = record.inputs.get("purpose"), record.inputs.get("role")
    if role != "ACTIVE":
        return False
    is_own = last_segment(str(record.inputs.get("region"))) == region
    return purpose == "GLOBAL_MANAGED_PROXY" or (purpose == "REGIONAL_MANAGED_PROXY" and is_own)
