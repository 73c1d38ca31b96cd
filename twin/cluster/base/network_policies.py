"""Whether NetworkPolicies let traffic into a pod, or out of it. Pure (rule network.policies)."""

from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address, ip_network

from twin.cluster.base.fields import part, parts, text_map
from twin.cluster.base.matching import container_port, selects
from twin.wire.kube import JsonObject

IsPeer = Callable[[JsonObject], bool]
"""Returns whether a peer of a policy in the pod's namespace is the other end."""
NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""Label that each Namespace has, with its name."""
_INGRESS = ("Ingress", "ingress", "from")
_EGRESS = ("Egress", "egress", "to")
_OUTSIDE: JsonObject = {"metadata": {}, "spec": {"containers": []}}
"""The other end outside the cluster, which has no named ports."""


def lets_in(policies: Iterable[JsonObject], pod: JsonObject, port: int, is_peer: IsPeer) -> bool:
    """Return whether no policy selects a pod for ingress, or a rule of one allows the traffic.

    Args:
        policies: NetworkPolicies of all namespaces.
        pod: Receiver.
        port: TCP port.
        is_peer: Recognizes the sender.
    """
    return _allows(_INGRESS, policies, pod, pod, port, is_peer)


def between_pods(
    policies: Iterable[JsonObject],
    namespaces: Mapping[str, dict[str, str]],
    sender: JsonObject,
    receiver: JsonObject,
    port: int,
) -> str | None:
    """Return why a pod does not reach a port of another pod, or None if it does.

    A pod reaches itself, and pods on the host network have the address of their node.

    Args:
        policies: NetworkPolicies of all namespaces.
        namespaces: Labels of each namespace.
        sender: Pod that connects.
        receiver: Pod that listens.
        port: TCP port of the receiver.
    """
    ends = (_path(sender), _path(receiver))
    if ends[0] == ends[1] or _is_on_host(sender) or _is_on_host(receiver):
        return None
    listed = list(policies)
    flow = f"{ends[0]} to port {port} of {ends[1]}"
    if not _allows(_EGRESS, listed, sender, receiver, port, _is_pod(receiver, sender, namespaces)):
        return f"{flow}: no NetworkPolicy of the sender's namespace lets it out"
    if not _allows(
        _INGRESS, listed, receiver, receiver, port, _is_pod(sender, receiver, namespaces)
    ):
        return f"{flow}: no NetworkPolicy of the receiver's namespace lets it in"
    return None


def out_of_the_cluster(
    policies: Iterable[JsonObject], pod: JsonObject, address: str, port: int
) -> str | None:
    """Return why a pod does not reach an address outside the cluster, or None if it does.

    Args:
        policies: NetworkPolicies of all namespaces.
        pod: Pod that connects.
        address: IP address, such as one of Google's APIs or of the metadata server.
        port: TCP port.
    """
    at = ip_address(address)

    def is_peer(peer: JsonObject) -> bool:
        block = part(peer, "ipBlock")
        return "cidr" in block and (
            at in ip_network(block["cidr"])
            and not any(at in ip_network(each) for each in block.get("except") or ())
        )

    if _is_on_host(pod) or _allows(_EGRESS, policies, pod, _OUTSIDE, port, is_peer):
        return None
    return f"{_path(pod)} to {address}:{port}: no NetworkPolicy of its namespace lets it out"


def sent_by_pod(namespace: dict[str, str], labels: dict[str, str]) -> IsPeer:
    """Return what recognizes a pod of another namespace.

    An ipBlock never does: it is for addresses outside the cluster.

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


def _is_pod(other: JsonObject, own: JsonObject, namespaces: Mapping[str, dict[str, str]]) -> IsPeer:
    """Return what recognizes the pod at the other end, for policies in a pod's own namespace."""
    name = str(other["metadata"]["namespace"])
    is_near = name == own["metadata"]["namespace"]
    labels = text_map(other["metadata"], "labels")
    is_peer = sent_by_pod({NAMESPACE_NAME: name, **namespaces.get(name, {})}, labels)

    def recognizes(peer: JsonObject) -> bool:
        if "namespaceSelector" in peer or "podSelector" not in peer:
            return is_peer(peer)
        return is_near and selects(part(peer, "podSelector"), labels)

    return recognizes


def _allows(
    direction: tuple[str, str, str],
    policies: Iterable[JsonObject],
    pod: JsonObject,
    receiver: JsonObject,
    port: int,
    is_peer: IsPeer,
) -> bool:
    """Return whether the policies that select a pod for a direction allow the traffic."""
    kind, rules, peers = direction
    labels = text_map(pod["metadata"], "labels")
    specs = [
        policy["spec"]
        for policy in policies
        if policy["metadata"].get("namespace") == pod["metadata"].get("namespace")
        and kind in _types(policy["spec"])
        and selects(part(policy["spec"], "podSelector"), labels)
    ]
    return not specs or any(
        _has_peer(parts(rule, peers), is_peer) and _has_port(rule, receiver, port)
        for spec in specs
        for rule in parts(spec, rules)
    )


def _types(spec: JsonObject) -> list[str]:
    """Return the directions of a policy; by default ingress, and egress if it has such rules."""
    return spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])]


def _path(pod: JsonObject) -> str:
    return f"{pod['metadata'].get('namespace')}/{pod['metadata'].get('name')}"


def _is_on_host(pod: JsonObject) -> bool:
    return pod["spec"].get("hostNetwork") is True


def _has_peer(peers: list[JsonObject], is_peer: IsPeer) -> bool:
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
