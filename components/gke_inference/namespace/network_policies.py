"""Network policies of the serving namespace: allowed ingress by port.

Only the listed ingress is allowed; egress is unrestricted. Policies distinguish only ports: the
engines' API and their administrative paths share one, and the routes decide which paths pass. A
node can always reach its own pods
(kubernetes.io/docs/concepts/services-networking/network-policies), so the kubelet's probes need no
rule.
"""

from collections.abc import Mapping
from typing import NotRequired, TypedDict

from gke_inference.base.manifests import (
    COMPONENT_LABEL,
    ENGINES,
    NAME_LABEL,
    Manifest,
    labels_for,
    manifest,
)
from gke_inference.batches import pods as batch_pods
from gke_inference.catalogue.load_balancing import HEALTH_CHECK_RANGES
from gke_inference.catalogue.managed_prometheus import STANDARD_NAMESPACE
from gke_inference.clients import callout as client_gate
from gke_inference.gateway import model_catalogue as gateway_catalogue
from gke_inference.gateway import picker as gateway_picker
from gke_inference.gateway import router as gateway_router
from gke_inference.guardrails import nemo
from gke_inference.settings.fields import Port
from gke_inference.streams import stream_worker

ENGINE_PORT = 8000
"""Port of the OpenAI API, of `/health` and of `/metrics`."""
_NAMESPACE_NAME = "kubernetes.io/metadata.name"


class AllowedIngressArgs(TypedDict):
    """Allowed ingress to the pods of a `ServingNamespace`."""

    proxies_cidr: str
    """Range of the load balancer's proxies: the region's proxy-only subnet."""
    other_proxies: NotRequired[list[str]]
    """Ranges of proxies in other regions, for pools behind a `FleetGateway`. Default: none."""
    asked_gate: NotRequired[bool]
    """Whether the body router asks the `ClientGate` for the model that answers. Default: false."""
    batch_workers: NotRequired[bool]
    """Whether the namespace has workers of a `BatchService`, which read the pickers' queue metrics.
    Default: false."""
    cached_answers: NotRequired[bool]
    """Whether the `ClientGate` requests embeddings of questions from engines. Default: false."""
    client_gate: NotRequired[bool]
    """Whether the namespace has a `ClientGate`. Default: false."""
    guards: NotRequired[bool]
    """Whether the namespace has guards (`NemoGuardrails`), which the gate calls. Default: false."""
    connected_models: NotRequired[list[str]]
    """Models (values of `app.kubernetes.io/name`) whose replicas may reach each other: groups over
    several hosts, and prefill and decode replicas. Default: none."""
    metrics_ports: NotRequired[dict[str, Port]]
    """Port of the metrics of each model (value of `app.kubernetes.io/name`) whose engine has one
    beside that of its API. Default: none."""
    metrics_namespace: NotRequired[str]
    """Namespace of the Managed Prometheus collectors. Default: `gmp-system`; on Autopilot it is
    `gke-gmp-system`."""
    grpc_ports: NotRequired[dict[str, Port]]
    """Port for gRPC of each model (value of `app.kubernetes.io/name`) that has one. Default:
    none."""
    stream_workers: NotRequired[bool]
    """Whether the namespace has a `StreamWorker`, which reads the pickers' queue metrics. Default:
    false."""


def network_policies(
    namespace: str, args: AllowedIngressArgs, *, closes: bool = True
) -> dict[str, Manifest]:
    """Return the NetworkPolicies by name.

    Args:
        namespace: Name of the namespace.
        args: Who may reach what.
        closes: Whether the first one closes the namespace to everybody. Without it the policies
            close the platform's own pods alone: a policy that selects a pod denies what it does not
            list.
    """
    others = args.get("other_proxies", [])
    proxies = _ranges(args["proxies_cidr"], *others, *sorted(HEALTH_CHECK_RANGES))
    collectors = _namespace(args.get("metrics_namespace", STANDARD_NAMESPACE))
    pickers: Manifest = {"podSelector": _pods(gateway_picker.COMPONENT)}
    gates: Manifest = {"podSelector": _pods(client_gate.COMPONENT)}
    callers = [
        *proxies,
        pickers,
        *([gates] if args.get("cached_answers", False) else []),
        collectors,
    ]
    readers = [collectors]
    if args.get("batch_workers", False):
        readers.append({"podSelector": _pods(batch_pods.WORKER)})
    if args.get("stream_workers", False):
        readers.append({"podSelector": _pods(stream_worker.COMPONENT)})
    closed: tuple[Manifest, list[Manifest]] = ({}, [])
    rules: dict[str, tuple[Manifest, list[Manifest]]] = {
        **({"default-deny": closed} if closes else {}),
        "engines": (_pods(ENGINES), [_rule(callers, ENGINE_PORT)]),
        "pickers": (
            _pods(gateway_picker.COMPONENT),
            [
                _rule(proxies, gateway_picker.PORT, gateway_picker.HEALTH_PORT),
                _rule(readers, gateway_picker.METRICS_PORT),
            ],
        ),
        "body-router": (
            _pods(gateway_router.COMPONENT),
            [
                _rule(proxies, gateway_router.PORT, gateway_router.HEALTH_PORT),
                _rule([collectors], gateway_router.METRICS_PORT),
            ],
        ),
        "catalogue": (
            _pods(gateway_catalogue.COMPONENT),
            [_rule(proxies, gateway_catalogue.PORT)],
        ),
    }
    if args.get("client_gate", False):
        router: Manifest = {"podSelector": _pods(gateway_router.COMPONENT)}
        rules["client-gate"] = (
            _pods(client_gate.COMPONENT),
            [
                *([_rule([router], client_gate.PORT)] if args.get("asked_gate", False) else []),
                _rule(proxies, client_gate.PORT, client_gate.HEALTH_PORT),
                _rule([collectors], client_gate.METRICS_PORT),
            ],
        )
    if args.get("guards", False):
        gate: Manifest = {"podSelector": _pods(client_gate.COMPONENT)}
        rules["guardrails"] = (_pods(nemo.COMPONENT), [_rule([gate, collectors], nemo.PORT)])
    made = {
        name: _policy(name, namespace, selector, ingress)
        for name, (selector, ingress) in rules.items()
    }
    return {
        **made,
        **connections(namespace, args.get("connected_models", [])),
        **metrics_access(namespace, args.get("metrics_ports", {}), args.get("metrics_namespace")),
        **grpc_access(namespace, args.get("grpc_ports", {}), args["proxies_cidr"]),
    }


def connections(namespace: str, models: list[str]) -> dict[str, Manifest]:
    """Return the NetworkPolicies, by name, that let the replicas of a model reach each other.

    They allow all ports: Ray, collectives of a group and KV cache transfers choose their own.

    Args:
        namespace: Name of the namespace.
        models: Values of `app.kubernetes.io/name`.
    """
    made: dict[str, Manifest] = {}
    for model in sorted(models):
        own, name = _pods(ENGINES, model), f"{model}-replicas"
        made[name] = _policy(name, namespace, own, [{"from": [{"podSelector": own}]}])
    return made


def metrics_access(
    namespace: str, ports: Mapping[str, int], metrics_namespace: str | None = None
) -> dict[str, Manifest]:
    """Return the NetworkPolicies, by name, that let collectors reach the metrics of models.

    Args:
        namespace: Name of the namespace.
        ports: Port of the metrics by value of `app.kubernetes.io/name`.
        metrics_namespace: Namespace of the collectors. Default: `gmp-system`.
    """
    collectors = _namespace(metrics_namespace or STANDARD_NAMESPACE)
    made: dict[str, Manifest] = {}
    for model, port in sorted(ports.items()):
        own, name = _pods(ENGINES, model), f"{model}-metrics"
        made[name] = _policy(name, namespace, own, [_rule([collectors], port)])
    return made


def grpc_access(
    namespace: str, ports: Mapping[str, int], proxies_cidr: str | None
) -> dict[str, Manifest]:
    """Return the NetworkPolicies, by name, that let load balancers reach the gRPC port of models.

    Args:
        namespace: Name of the namespace.
        ports: Port by value of `app.kubernetes.io/name`.
        proxies_cidr: Range of the load balancers' proxies.
    """
    made: dict[str, Manifest] = {}
    for model, port in sorted(ports.items()):
        proxies = _ranges(
            *([] if proxies_cidr is None else [proxies_cidr]), *sorted(HEALTH_CHECK_RANGES)
        )
        own, name = _pods(ENGINES, model), f"{model}-grpc"
        made[name] = _policy(name, namespace, own, [_rule(proxies, port)])
    return made


def _policy(name: str, namespace: str, selector: Manifest, ingress: list[Manifest]) -> Manifest:
    spec: Manifest = {"podSelector": selector, "policyTypes": ["Ingress"]}
    if ingress:
        spec["ingress"] = ingress
    return manifest(
        "network_policy", name, namespace, labels=labels_for(name, "network-policy"), spec=spec
    )


def _rule(peers: list[Manifest], *ports: int) -> Manifest:
    return {"from": peers, "ports": [{"port": port, "protocol": "TCP"} for port in ports]}


def _ranges(*cidrs: str) -> list[Manifest]:
    return [{"ipBlock": {"cidr": cidr}} for cidr in cidrs]


def _namespace(name: str) -> Manifest:
    return {"namespaceSelector": {"matchLabels": {_NAMESPACE_NAME: name}}}


def _pods(component: str, name: str | None = None) -> Manifest:
    labels = {COMPONENT_LABEL: component}
    return {"matchLabels": labels if name is None else {**labels, NAME_LABEL: name}}
