"""Whether NetworkPolicies let traffic into a pod. Pure (rule network.policies)."""

from collections.abc import Callable, Iterable

from twin.cluster.base.fields import part, parts, text_map
from twin.cluster.base.matching import container_port, selects
from twin.wire.kube import JsonObject

IsPeer = Callable[[JsonObject], bool]
"""Returns whether a peer of a policy in the pod's namespace is the sender."""


def lets_in(policies: Iterable[JsonObject], pod: JsonObject, port: int, is_peer: IsPeer) -> bool:
    """Return whether no policy selects a pod for ingress, or a rule of one allows the traffic.

    Args:
        policies: NetworkPolicies of all namespaces.
        pod: Receiver.
        port: TCP port.
        is_peer: Recognizes the sender.
    """
    labels = text_map(pod["metadata"], "labels")
    specs = [
        policy["spec"]
        for policy in policies
        if policy["metadata"].get("namespace") == pod["metadata"].get("namespace")
        and "Ingress" in (policy["spec"].get("policyTypes") or ["Ingress"])
        and selects(part(policy["spec"], "podSelector"), labels)
    ]
    return not specs or any(
        _has_peer(rule, is_peer) and _has_port(rule, pod, port)
        for spec in specs
        for rule in parts(spec, "ingress")
    )


def sent_by_pod(namespace: dict[str, str], labels: dict[str, str]) -> IsPeer:
    """Return what recognizes a pod of another namespace.

    Args:
        namespace: Labels of the pod's namespace.
        labels: Labels of the pod.
    """

    def is_peer(peer: JsonObject) -> bool:
        return (
            "namespaceSelector" in peer
            and selects(part(peer, "namespaceSelector"), namespace)
            and selects(part(peer, "podSelector"), labels)
        )

    return is_peer


def _has_peer(rule: JsonObject, is_peer: IsPeer) -> bool:
    peers = parts(rule, "from")
    return not peers or any(map(is_peer, peers))


def _has_port(rule: JsonObject, pod: JsonObject, port: int) -> bool:
    ports = parts(rule, "ports")
    return not ports or any(
        each.get("protocol", "TCP") == "TCP" and _within(each, pod, port) for each in ports
    )


def _within(entry: JsonObject, pod: JsonObject, port: int) -> bool:
    first = entry.get("port")
    if first is None:
        return True
    number = container_port(pod, first)
    return number is not None and number <= port <= int(entry.get("endPort", number))
