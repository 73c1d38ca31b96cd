"""Whether the load balancer's traffic to pods passes the VPC's firewall and NetworkPolicies. Pure.

Rules network.firewall and network.policies. Pods of the twin have loopback addresses, so nothing
filters their traffic: what Google would drop is left out of the gateway's endpoints instead.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Network
from typing import Final

from gke_inference.catalogue.load_balancing import HEALTH_CHECK_RANGES
from twin.cluster.base.matching import container_port
from twin.cluster.base.network_policies import lets_in
from twin.cluster.gateway.translation.objects import JsonObject, Snapshot, mapping, strings
from twin.cluster.gateway.translation.vpc import ClusterNetwork, FirewallRule, decision

_OF_GKE: Final = 1000  # priority of the rules that GKE writes


@dataclass(frozen=True)
class _Flow:
    what: str
    source: IPv4Network
    port: int
    is_serving: bool


def passable(
    snapshot: Snapshot, pods: Iterable[JsonObject], port: int | str, check_port: int | None
) -> tuple[list[JsonObject], tuple[str, ...]]:
    """Return the pods that the load balancer reaches, and a sentence for each flow that is dropped.

    Args:
        snapshot: The cluster's objects and its network.
        pods: Pods of one backend.
        port: Number or name of the serving port.
        check_port: Port of the health check; None for the serving port.
    """
    network = snapshot.network
    if network is None:
        return list(pods), ()
    found: list[JsonObject] = []
    dropped: dict[str, None] = {}
    for pod in pods:
        number = container_port(pod, port)
        flows = () if number is None else _flows(network, number, check_port or number)
        said = [text for flow in flows if (text := _refusal(snapshot, network, pod, flow))]
        dropped |= dict.fromkeys(said)
        if not said:
            found.append(pod)
    return found, tuple(dropped)


def _flows(network: ClusterNetwork, port: int, check_port: int) -> Iterator[_Flow]:
    for source in network.proxies:
        yield _Flow("requests of proxies", IPv4Network(source), port, is_serving=True)
    for source in HEALTH_CHECK_RANGES:
        is_serving = check_port == port
        yield _Flow("health checks", IPv4Network(source), check_port, is_serving)


def _refusal(
    snapshot: Snapshot, network: ClusterNetwork, pod: JsonObject, flow: _Flow
) -> str | None:
    """Return a sentence about what drops a flow to a pod, or None."""
    what = f"{flow.what} from {flow.source} to port {flow.port}"
    namespace = str(pod["metadata"]["namespace"])
    if not _passes_firewall(network, flow):
        return f"{what}: no firewall rule of {network.name} allows tcp:{flow.port} from this range"
    if network.enforces_policies and not _passes_policies(snapshot, pod, flow):
        return f"{what}: no NetworkPolicy of {namespace} allows it to {_labels(pod)}"
    return None


def _passes_firewall(network: ClusterNetwork, flow: _Flow) -> bool:
    """Return whether firewall rules let a flow in.

    Without any rule, a VPC denies ingress. GKE opens the serving ports of a Gateway's backends in
    the project's own network, but not a port that only a health check uses.
    """
    rules = list(network.rules)
    if flow.is_serving and not network.is_shared:
        rules.append(FirewallRule(_OF_GKE, True, (flow.source,), ((flow.port, flow.port),)))
    return decision(rules, flow.source, flow.port, network.pods) is True


def _passes_policies(snapshot: Snapshot, pod: JsonObject, flow: _Flow) -> bool:
    return lets_in(snapshot.all("NetworkPolicy"), pod, flow.port, partial(_is_range, flow.source))


def _is_range(source: IPv4Network, peer: JsonObject) -> bool:
    """Return whether a peer has all of a range. Selectors select pods, and never a range."""
    block = mapping(peer, "ipBlock")
    cidr = str(block.get("cidr", ":"))
    return (
        ":" not in cidr
        and source.subnet_of(IPv4Network(cidr))
        and not any(source.overlaps(IPv4Network(each)) for each in strings(block, "except"))
    )


def _labels(pod: JsonObject) -> str:
    """Return the label that names a pod's program, or the pod's name."""
    labels: dict[str, str] = mapping(pod["metadata"], "labels")
    known = ("app.kubernetes.io/name", "app.kubernetes.io/component")
    named = [f"{key}={labels[key]}" for key in known if key in labels]
    return f"pods with {', '.join(named)}" if named else f"pod {pod['metadata']['name']}"
