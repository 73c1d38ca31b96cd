"""Connections between the pods of a stack, found in its objects, and what NetworkPolicies drop."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from gke_inference.catalogue.google_addresses import (
    APIS,
    METADATA_SERVER,
    METADATA_SERVER_OF_DATAPLANE_V2,
)
from twin.cluster.base.matching import selects
from twin.cluster.base.network_policies import between_pods, out_of_the_cluster
from twin.cluster.base.pod_network import CONTROL_PLANE
from twin.cluster.controlplane.konnectivity import backends

Object = dict[str, Any]
_ENGINES = "model-server"
_MODEL = "app.kubernetes.io/name"
_COMPONENT = "app.kubernetes.io/component"
_RAY = 6379
_GROUPS = ("LeaderWorkerSet", "RayCluster")
GOOGLE = (
    (APIS["private.googleapis.com"], 443),
    METADATA_SERVER,
    METADATA_SERVER_OF_DATAPLANE_V2,
)
"""Google's APIs and GKE's metadata server, with their ports."""


@dataclass(frozen=True)
class Flow:
    """A pod that connects to a port of another one."""

    what: str
    sender: Object
    receiver: Object
    port: int

    @property
    def name(self) -> str:
        """Names of both ends."""
        ends = (self.sender, self.receiver)
        return " to ".join(f"{_namespace(each)}/{each['metadata']['name']}" for each in ends)


def unreached(bodies: list[Object]) -> list[str]:
    """Return the flows between the pods of a cluster that its NetworkPolicies drop."""
    policies = [body for body in bodies if body["kind"] == "NetworkPolicy"]
    namespaces = {
        str(body["metadata"]["name"]): dict(body["metadata"].get("labels") or {})
        for body in bodies
        if body["kind"] == "Namespace"
    }
    found = (
        between_pods(policies, namespaces, flow.sender, flow.receiver, flow.port)
        for flow in flows(bodies)
    )
    return list(dict.fromkeys(each for each in found if each is not None))


def cut_off(bodies: list[Object]) -> list[str]:
    """Return the pods that NetworkPolicies keep from Google's APIs or from their identity."""
    policies = [body for body in bodies if body["kind"] == "NetworkPolicy"]
    found = (
        out_of_the_cluster(policies, pod, address, port)
        for body in bodies
        for pod in pods_of(body)
        for address, port in GOOGLE
    )
    return [each for each in found if each is not None]


def flows(bodies: list[Object]) -> Iterator[Flow]:
    """Yield the connections between the pods of a cluster's objects."""
    made = [(body, list(pods_of(body))) for body in bodies]
    pods = [pod for _, each in made for pod in each]
    services = [body for body in bodies if body["kind"] == "Service"]
    yield from _of_pickers(bodies, services, pods)
    yield from _of_fallbacks(bodies, pods)
    yield from _of_webhooks(bodies, services, pods)
    for body, own in made:
        if body["kind"] in _GROUPS:  # every host of a group reaches every other one
            yield from (Flow("replicas", a, b, _RAY) for a in own for b in own if a is not b)
    for sender in pods:
        if any(each["name"] == "routing-sidecar" for each in _containers(sender)):
            model = sender["metadata"]["labels"][_MODEL]
            for pod in _selected(pods, _namespace(sender), {_COMPONENT: _ENGINES, _MODEL: model}):
                yield from (Flow("prefill", sender, pod, port) for port in _ports(pod))
    settings = [(pod, _configured(pod, bodies)) for pod in pods]
    for service in services:
        yield from _to_service(service, settings, pods)


def _of_pickers(bodies: list[Object], services: list[Object], pods: list[Object]) -> Iterator[Flow]:
    for pool in (body for body in bodies if body["kind"] == "InferencePool"):
        space, spec = pool["metadata"]["namespace"], pool["spec"]
        name = spec["endpointPickerRef"]["name"]
        service = next(each for each in services if _named(each, space, name))
        pickers = _selected(pods, space, service["spec"]["selector"])
        for pod in _selected(pods, space, spec["selector"]["matchLabels"]):
            for port in spec["targetPorts"]:
                yield from (Flow("picker", each, pod, port["number"]) for each in pickers)


def _of_fallbacks(bodies: list[Object], pods: list[Object]) -> Iterator[Flow]:
    """Yield what relays read from the engines of their model."""
    for body in (body for body in bodies if body["kind"] == "ConfigMap"):
        given = yaml.load((body.get("data") or {}).get("relay.yaml", "{}"), yaml.CSafeLoader)
        fallback = given.get("fallback")
        if fallback:
            relays = [pod for pod in pods if _mounts(pod, body)]
            for pod in _selected(pods, fallback["namespace"], fallback["selector"]):
                yield from (Flow("fallback", each, pod, fallback["port"]) for each in relays)


def _of_webhooks(
    bodies: list[Object], services: list[Object], pods: list[Object]
) -> Iterator[Flow]:
    for body in (body for body in bodies if body["kind"].endswith("WebhookConfiguration")):
        for hook in body.get("webhooks") or ():
            at = hook["clientConfig"]["service"]
            service = next(each for each in services if _named(each, at["namespace"], at["name"]))
            own = [pod for pod in pods if _namespace(pod) == at["namespace"]]
            for pod, port in backends(service, int(at.get("port") or 443), own):
                yield Flow("webhook", CONTROL_PLANE, pod, port)


def _to_service(
    service: Object, settings: list[tuple[Object, str]], pods: list[Object]
) -> Iterator[Flow]:
    """Yield the connections to a Service that the settings of programs name with a port."""
    name, space = service["metadata"]["name"], service["metadata"].get("namespace", "")
    address = re.compile(rf"(?<![\w.-]){re.escape(name)}(\.{re.escape(space)}[\w.]*)?:(\d+)")
    own = [pod for pod in pods if _namespace(pod) == space]
    for sender, text in (each for each in settings if name in each[1]):
        for found in address.finditer(text):
            if found[1] or _namespace(sender) == space:
                for pod, port in backends(service, int(found[2]), own):
                    yield Flow("service", sender, pod, port)


def _configured(pod: Object, bodies: list[Object]) -> str:
    """Return what a pod's programs read: its spec and the ConfigMaps that it mounts."""
    mounted = [
        body["data"] for body in bodies if body["kind"] == "ConfigMap" and _mounts(pod, body)
    ]
    return json.dumps([pod["spec"], mounted])


def _mounts(pod: Object, body: Object) -> bool:
    volumes = [json.dumps(each) for each in pod["spec"].get("volumes", [])]
    name = f'"name": "{body["metadata"]["name"]}"'
    is_near = body["metadata"].get("namespace") == _namespace(pod)
    return is_near and any(name in volume for volume in volumes)


def _containers(pod: Object) -> list[Object]:
    return [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]


def _ports(pod: Object) -> list[int]:
    """Return the ports on which a prefilling pod is asked: of its API and for its KV cache."""
    variables = {
        each["name"]: each.get("value") for one in _containers(pod) for each in one.get("env") or ()
    }
    number = variables.get("VLLM_NIXL_SIDE_CHANNEL_PORT")
    return [8000, *([int(number)] if number else [])]


def _namespace(obj: Object) -> str:
    return str(obj["metadata"].get("namespace", ""))


def _named(obj: Object, namespace: str, name: str) -> bool:
    return (_namespace(obj), obj["metadata"]["name"]) == (namespace, name)


def _selected(pods: list[Object], namespace: str, labels: dict[str, str]) -> list[Object]:
    selector = {"matchLabels": labels}
    return [
        pod
        for pod in pods
        if _namespace(pod) == namespace and selects(selector, pod["metadata"]["labels"])
    ]


def with_whole_numbers(value: Any) -> Any:
    """Return a value as an API server reads it: the engine sends every number as a float."""
    if isinstance(value, dict):
        return {key: with_whole_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [with_whole_numbers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def pods_of(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a ready pod of each template in a workload."""
    for at, template in enumerate(templates(body.get("spec"))):
        metadata = {
            "labels": (template.get("metadata") or {}).get("labels") or {},
            "name": f"{body['metadata']['name']}-{at}",
            "namespace": body["metadata"].get("namespace", ""),
        }
        ready = [{"type": "Ready", "status": "True"}]
        yield {
            "kind": "Pod",
            "metadata": metadata,
            "spec": template["spec"],
            "status": {"podIP": "127.64.0.1", "conditions": ready},
        }


def templates(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the pod templates in a spec."""
    if isinstance(value, list):
        for each in value:
            yield from templates(each)
    if not isinstance(value, dict):
        return
    if isinstance(value.get("spec"), dict) and "containers" in value["spec"]:
        yield value
        return
    for each in value.values():
        yield from templates(each)
