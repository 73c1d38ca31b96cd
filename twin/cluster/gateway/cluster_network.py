"""The VPC of a cluster in the twin's cloud, with the rules that filter traffic of its pods."""

from collections.abc import Iterator

from twin.cluster.base.context import ClusterSpec
from twin.cluster.base.pod_network import cluster_record, enforces_policies
from twin.cluster.gateway.translation.vpc import ClusterNetwork, FirewallRule, firewall_rules
from twin.host.paths import TwinPaths
from twin.wire.property_values import as_list, as_object, last_segment
from twin.world.store import Record, Store

_FIREWALL = "gcp:compute/firewall:Firewall"
_NETWORK = "gcp:compute/network:Network"
_SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
_ALLOWS_ALL = "0.0.0.0/0"
_INGRESS = ("INGRESS", "sourceRanges")
_EGRESS = ("EGRESS", "destinationRanges")
_LOWEST_PRIORITY = 1000  # of a rule that names none
_TARGETS = ("targetTags", "targetServiceAccounts", "sourceTags", "sourceServiceAccounts")


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
    walls = [each for each in store.find(_FIREWALL) if (each.type, each.id) in used]
    return ClusterNetwork(
        name=network.id,
        rules=tuple(rule for each in walls for rule in _rules(each, _INGRESS)),
        proxies=tuple(
            str(record.inputs.get("ipCidrRange"))
            for record in store.find(_SUBNETWORK)
            if (record.type, record.id) in used and _serves(record, spec.region)
        ),
        is_shared=network.id.split("/")[1] != spec.project,
        enforces_policies=enforces_policies(spec, cluster),
        leaving=tuple(rule for each in walls for rule in _rules(each, _EGRESS)),
    )


def _rules(record: Record, direction: tuple[str, str]) -> Iterator[FirewallRule]:
    """Yield the rules for all VMs of the network that a firewall resource has for a direction."""
    inputs = record.inputs
    name, ranges = direction
    is_other = str(inputs.get("direction") or _INGRESS[0]) != name
    if is_other or inputs.get("disabled") is True or any(map(inputs.get, _TARGETS)):
        return
    yield from firewall_rules(
        int(inputs.get("priority") or _LOWEST_PRIORITY),
        [str(each) for each in as_list(inputs.get(ranges)) or [_ALLOWS_ALL]],
        [found for each in as_list(inputs.get("allows")) or [] if (found := as_object(each))],
        [found for each in as_list(inputs.get("denies")) or [] if (found := as_object(each))],
    )


def _serves(record: Record, region: str) -> bool:
    """Return whether a subnet is that of proxies which reach the pods of a region."""
    purpose, role = record.inputs.get("purpose"), record.inputs.get("role")
    if role != "ACTIVE":
        return False
    is_own = last_segment(str(record.inputs.get("region"))) == region
    return purpose == "GLOBAL_MANAGED_PROXY" or (purpose == "REGIONAL_MANAGED_PROXY" and is_own)
