"""Network policies of the namespace that models are served from: who may reach which port.

Nothing gets in but what is listed here, and everything may go out. Only ports are told apart: the
engines' API and their administrative paths share one, and the routes say which paths pass.
Kubernetes lets a node reach its own pods whatever a policy says (kubernetes.io/docs/concepts/
services-networking/network-policies), so the kubelet's probes need no rule.
"""

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
from gke_inference.clients import callout as client_gate
from gke_inference.gateway import model_catalogue as gateway_catalogue
from gke_inference.gateway import picker as gateway_picker
from gke_inference.gateway import router as gateway_router
from gke_inference.guardrails import nemo
from gke_inference.streams import stream_worker

ENGINE_PORT = 8000
"""Port of the OpenAI API, of `/health` and of `/metrics`."""
_NAMESPACE_NAME = "kubernetes.io/metadata.name"


class AllowedIngressArgs(TypedDict):
    """Who may reach the pods of a `ServingNamespace`."""

    proxies_cidr: str
    """Range of the load balancer's proxies: the region's proxy-only subnet."""
    batch_workers: NotRequired[bool]
    """Whether workers of a `BatchService` are in the namespace, which read the queues that pickers
    report. Default no."""
    cached_answers: NotRequired[bool]
    """Whether the `ClientGate` asks engines for the embeddings of questions. Default no."""
    client_gate: NotRequired[bool]
    """Whether a `ClientGate` is in the namespace. Default no."""
    guards: NotRequired[bool]
    """Whether guards (`NemoGuardrails`) are in the namespace, which the gate asks. Default no."""
    connected_models: NotRequired[list[str]]
    """Models (values of `app.kubernetes.io/name`) whose replicas talk to each other: groups over
    several hosts, and prefill and decode replicas. Others cannot."""
    metrics_namespace: NotRequired[str]
    """Namespace of Managed Prometheus' collectors: `gmp-system` (default), on Autopilot
    `gke-gmp-system`."""
    stream_workers: NotRequired[bool]
    """Whether a `StreamWorker` is in the namespace, which reads the queues that pickers report.
    Default no."""


def network_policies(
    namespace: str, args: AllowedIngressArgs, *, closes: bool = True
) -> dict[str, Manifest]:
    """Returns the NetworkPolicies by name.

    Args:
        namespace: Name of the namespace.
        args: Who may reach what.
        closes: Whether the first one closes the namespace to everybody. Without it the policies
            close the platform's own pods alone: a policy that selects a pod denies what it does not
            list.
    """
    proxies = _ranges(args["proxies_cidr"], *sorted(HEALTH_CHECK_RANGES))
    collectors = _namespace(args.get("metrics_namespace", "gmp-system"))
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
            [_rule(proxies, gateway_router.PORT, gateway_router.HEALTH_PORT)],
        ),
        "catalogue": (
            _pods(gateway_catalogue.COMPONENT),
            [_rule(proxies, gateway_catalogue.PORT)],
        ),
    }
    if args.get("client_gate", False):
        rules["client-gate"] = (
            _pods(client_gate.COMPONENT),
            [
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
    return made | connections(namespace, args.get("connected_models", []))


def connections(namespace: str, models: list[str]) -> dict[str, Manifest]:
    """Returns the NetworkPolicies, by name, that let the replicas of a model talk to each other.

    On every port: Ray, the collectives of a group and the transfers of KV cache choose theirs.

    Args:
        namespace: Name of the namespace.
        models: Values of `app.kubernetes.io/name`.
    """
    made: dict[str, Manifest] = {}
    for model in sorted(models):
        own, name = _pods(ENGINES, model), f"{model}-replicas"
        made[name] = _policy(name, namespace, own, [{"from": [{"podSelector": own}]}])
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
