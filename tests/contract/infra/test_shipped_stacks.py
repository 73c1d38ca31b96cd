"""Every stack that is shipped passes what a pull request must pass, without an engine.

`tests/preview` runs the policy pack in the engine on the stacks of `stacks/`, for its own sake.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gke_inference.catalogue.load_balancing import BACKEND_PORTS, HEALTH_CHECK_RANGES
from gke_inference.catalogue.response_headers import hidden_headers
from infra.reading.load import platform_of, read
from infra.stack import ClusterMode, Layer, Platform
from infra.stack.layers import platform_name
from policies.checker.checker import check_objects
from policies.checker.rules import invariants
from policies.framework.finding import Verdict
from policies.objects.documents import Source
from policies.pack.rendered import findings
from policies.rules import policies
from tests.contract.infra.cloud import Deployed
from tests.contract.infra.registered import clusters_of, registered, state
from tests.shipped_stacks import FILES
from twin.cluster.base.matching import selects
from twin.cluster.base.network_policies import IsPeer, lets_in, sent_by_pod
from twin.cluster.controlplane.konnectivity import backends
from twin.cluster.gateway.translation.backends import BackendIndex
from twin.cluster.gateway.translation.model import GatewayModel, Processor
from twin.cluster.gateway.translation.objects import NamedAddress, Snapshot, key_of
from twin.cluster.gateway.translation.translate import translate
from twin.cluster.gateway.translation.vpc import ClusterNetwork, firewall_rules
from twin.cluster.monitoring.targets import selected_pods, targets_of
from twin.tests.unit.gateway.builders import gateway_class
from twin.world.rules import all_rules

ADVISORY = {name for name, listed in policies().items() if listed.rule.level == "advisory"}
INVARIANTS = [listed.rule for listed in invariants().values()]


def title(file: Path) -> str:
    """Return the folder and the name of a stack."""
    return f"{file.parent.name}/{file.name.split('.')[1]}"


def span(ports: str) -> range:
    """Return the ports of `8000` or `9002-9005`."""
    first, _, last = ports.partition("-")
    return range(int(first), int(last or first) + 1)


def balanced_ports(source: Source) -> Iterator[int]:
    """Yield the pod ports that proxies and health checks of load balancers reach."""
    for document in source.documents:
        body: dict[str, Any] = document.body
        spec = body.get("spec") or {}
        if body["kind"] == "InferencePool":
            yield from (each["number"] for each in spec["targetPorts"])
        if body["kind"] == "HealthCheckPolicy":
            config = spec["default"]["config"]
            checks = (value for key, value in config.items() if key.endswith("HealthCheck"))
            yield from (check["port"] for check in checks if "port" in check)


def foundation(file: Path) -> Platform:
    """Return the stack that has the network of a stack: its own, or that of its platform."""
    platform = read(file.name.split(".")[1], file.parent)
    if platform.layer is not Layer.SERVING:
        return platform
    return read(platform_name(str(platform_of(file)["platform"])), file.parent)


def proxies(platform: Platform, region: str) -> tuple[str, ...]:
    """Return the ranges of the proxies that reach the pods of a region."""
    found: dict[str, str] = {}
    for name, each in platform.regions.items():
        subnet = each.existing.subnet
        given = each.ranges if subnet is None else subnet
        if given is not None and given.proxies is not None:
            found[name] = str(given.proxies)
    return tuple(found.values()) if platform.gateway.has_fleet_gateway else (found[region],)


def dropped(source: Source, platform: Platform) -> set[str]:
    """Return what a Shared VPC with the documented rule drops on the way to a cluster's pods."""
    region = next(name for name in platform.regions if name in source.name)
    ranges = proxies(platform, region)
    allowed = [{"protocol": "tcp", "ports": list(BACKEND_PORTS)}]
    rules = tuple(firewall_rules(1000, (*ranges, *HEALTH_CHECK_RANGES), allowed, []))
    network = ClusterNetwork("net", rules, ranges, is_shared=True, enforces_policies=True)
    bodies = [with_whole_numbers(document.body) for document in source.documents]
    pods = [pod for body in bodies for pod in pods_of(body)]
    classes = [gateway_class(name) for name in all_rules()["gateway.classes"].value]
    named = lambda _: NamedAddress("127.32.0.1", "")  # noqa: E731 - one line
    snapshot = Snapshot.of([*classes, *bodies, *pods], network=network, address_named=named)
    found = {
        text
        for model in translate(snapshot).gateways.values()
        for each in (*model.backends, *called_by(model))
        for text in each.dropped
    }
    index = BackendIndex(snapshot, "")
    for pool in snapshot.all("InferencePool"):
        backend = index.pool(*key_of(pool))
        found |= {*backend.dropped, *(backend.picker.dropped if backend.picker else ())}
    return found


def with_whole_numbers(value: Any) -> Any:
    """Return a value as an API server reads it: the engine sends every number as a float."""
    if isinstance(value, dict):
        return {key: with_whole_numbers(each) for key, each in value.items()}
    if isinstance(value, list):
        return [with_whole_numbers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def called_by(model: GatewayModel) -> list[Processor]:
    """Return the programs that a gateway calls for each request."""
    chains = (*model.routing_chains, *model.traffic_chains)
    return [processor for chain in chains for processor in chain.processors]


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


def unscraped(source: Source, platform: Platform) -> list[str]:
    """Return the monitored ports that NetworkPolicies close to the collectors."""
    bodies = [with_whole_numbers(document.body) for document in source.documents]
    pods = [pod for body in bodies for pod in pods_of(body)]
    policies = [body for body in bodies if body["kind"] == "NetworkPolicy"]
    region = next(name for name in platform.regions if name in source.name)
    autopilot = platform.regions[region].mode is ClusterMode.AUTOPILOT
    namespace = "gke-gmp-system" if autopilot else "gmp-system"
    sender = sent_by_pod(
        {"kubernetes.io/metadata.name": namespace}, {"app.kubernetes.io/name": "collector"}
    )
    closed: list[str] = []

    def resolve(pod: dict[str, Any], port: int) -> tuple[str, int]:
        if not lets_in(policies, pod, port, sender):
            closed.append(f"{pod['metadata']['name']}:{port}")
        return "127.0.0.1", port

    for body in bodies:
        if body["kind"] == "PodMonitoring":
            found = selected_pods(body, pods)
            for endpoint in body["spec"]["endpoints"]:
                targets_of(body, endpoint, found, resolve, {})
    return closed


def configured(pod: dict[str, Any], bodies: list[dict[str, Any]]) -> str:
    """Return what a pod's programs read: its spec and the ConfigMaps that it mounts."""
    volumes = [json.dumps(each) for each in pod["spec"].get("volumes", [])]
    mounted = [
        body["data"]
        for body in bodies
        if body["kind"] == "ConfigMap"
        and body["metadata"].get("namespace") == pod["metadata"]["namespace"]
        and any(f'"name": "{body["metadata"]["name"]}"' in volume for volume in volumes)
    ]
    return json.dumps([pod["spec"], mounted])


def unreached(source: Source) -> list[str]:
    """Return the Services in the settings of programs whose pods NetworkPolicies close to them."""
    bodies = [with_whole_numbers(document.body) for document in source.documents]
    pods = [pod for body in bodies for pod in pods_of(body)]
    policies = [body for body in bodies if body["kind"] == "NetworkPolicy"]
    settings = [(pod, configured(pod, bodies)) for pod in pods]
    closed: list[str] = []
    for service in (body for body in bodies if body["kind"] == "Service"):
        name, space = service["metadata"]["name"], service["metadata"].get("namespace", "")
        address = re.compile(rf"(?<![\w.-]){re.escape(name)}(\.{re.escape(space)}[\w.]*)?:(\d+)")
        for sender, text in (each for each in settings if name in each[1]):
            for found in address.finditer(text):
                if not found[1] and sender["metadata"]["namespace"] != space:
                    continue
                for pod, port in backends(service, int(found[2]), pods_in(space, pods)):
                    if not lets_in(policies, pod, port, sent_from(sender, space)):
                        who = sender["metadata"]["name"]
                        closed.append(f"{who} to {pod['metadata']['name']}:{port}")
    return closed


def pods_in(namespace: str, pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the pods of a namespace."""
    return [pod for pod in pods if pod["metadata"]["namespace"] == namespace]


def sent_from(sender: dict[str, Any], namespace: str) -> IsPeer:
    """Return what recognizes a pod in the policies of a namespace."""
    metadata = sender["metadata"]
    from_outside = sent_by_pod(
        {"kubernetes.io/metadata.name": metadata["namespace"]}, metadata["labels"]
    )

    def is_peer(peer: dict[str, Any]) -> bool:
        if "namespaceSelector" in peer or metadata["namespace"] != namespace:
            return from_outside(peer)
        return selects(peer.get("podSelector") or {"matchLabels": {"": ""}}, metadata["labels"])

    return is_peer


@pytest.mark.parametrize("file", FILES, ids=title)
def test_load_balancers_collectors_and_programs_reach_the_pods_of_a_shipped_stack(
    deployed: Deployed, file: Path
) -> None:
    platform = foundation(file)
    for source in clusters_of(registered(file, deployed), ()):
        assert dropped(source, platform) == set()
        assert unscraped(source, platform) == []
        # the service of batches shares the file of its workers, which alone read queues of pickers
        shared = ["batch-0 to llama-3-1-8b-picker-0:9090"] if title(file) == "batch/batch" else []
        assert unreached(source) == shared


def removed_by(rule: dict[str, Any]) -> list[str]:
    """Return the headers that a rule of a route removes from responses."""
    filters = rule.get("filters", [])
    changes = [each.get("responseHeaderModifier", {}) for each in filters]
    return [name for change in changes for name in change.get("remove", [])]


@pytest.mark.parametrize("file", FILES, ids=title)
def test_every_route_of_a_shipped_stack_removes_the_headers_that_name_its_software(
    deployed: Deployed, file: Path
) -> None:
    for source in clusters_of(registered(file, deployed), ()):
        bodies = [document.body for document in source.documents]
        for route in (body for body in bodies if body["kind"] == "HTTPRoute"):
            for rule in route["spec"]["rules"]:
                assert removed_by(rule) == list(hidden_headers()), route["metadata"]["name"]


@pytest.mark.parametrize("file", FILES, ids=title)
def test_a_shipped_stack_breaks_no_mandatory_policy_and_no_invariant(
    deployed: Deployed, file: Path
) -> None:
    made = registered(file, deployed)
    states = tuple(state(file.name.split(".")[1], seen) for seen in made)
    assert [each.message for each in findings(states) if each.rule not in ADVISORY] == []
    sources = clusters_of(made, states)
    opened = {port for ports in BACKEND_PORTS for port in span(ports)}
    assert {each for source in sources for each in balanced_ports(source)} <= opened
    report = check_objects(sources, INVARIANTS)
    assert report.of(Verdict.BROKEN) == []
    assert report.objects >= 5
