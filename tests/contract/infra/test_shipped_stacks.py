"""Every stack that is shipped passes what a pull request must pass, without an engine.

`tests/preview` runs the policy pack in the engine on the stacks of `stacks/`, for its own sake.
"""

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
from tests.contract.infra.pod_flows import (
    GOOGLE,
    cut_off,
    flows,
    pods_of,
    unreached,
    with_whole_numbers,
)
from tests.contract.infra.registered import clusters_of, registered, state
from tests.shipped_stacks import FILES
from twin.cluster.base.network_policies import lets_in, sent_by_pod
from twin.cluster.gateway.translation.backends import BackendIndex
from twin.cluster.gateway.translation.model import GatewayModel, Processor
from twin.cluster.gateway.translation.objects import NamedAddress, Snapshot, key_of
from twin.cluster.gateway.translation.translate import translate
from twin.cluster.gateway.translation.vpc import ClusterNetwork, Direction, firewall_rules
from twin.cluster.monitoring.targets import selected_pods, targets_of
from twin.tests.unit.gateway.builders import gateway_class
from twin.world.rules import all_rules

ADVISORY = {name for name, listed in policies().items() if listed.rule.level == "advisory"}
_CLOSED = "no NetworkPolicy of the receiver's namespace lets it in"
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
    wall = {"allows": allowed, "sourceRanges": [*ranges, *HEALTH_CHECK_RANGES]}
    rules = tuple(firewall_rules(wall, Direction.INGRESS))
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


def called_by(model: GatewayModel) -> list[Processor]:
    """Return the programs that a gateway calls for each request."""
    chains = (*model.routing_chains, *model.traffic_chains)
    return [processor for chain in chains for processor in chain.processors]


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


@pytest.mark.parametrize("file", FILES, ids=title)
def test_load_balancers_collectors_and_programs_reach_the_pods_of_a_shipped_stack(
    deployed: Deployed, file: Path
) -> None:
    platform = foundation(file)
    for source in clusters_of(registered(file, deployed), ()):
        assert dropped(source, platform) == set()
        assert unscraped(source, platform) == []
        assert cut_off([with_whole_numbers(each.body) for each in source.documents]) == []
        # the service of batches shares the file of its workers, which alone read queues of pickers
        shared = (
            [f"models/batch-0 to port 9090 of models/llama-3-1-8b-picker-0: {_CLOSED}"]
            if title(file) == "batch/batch"
            else []
        )
        assert unreached([with_whole_numbers(each.body) for each in source.documents]) == shared


_WITH_FLOWS = ("backends", "disaggregation", "guardrails", "queues", "ray")


def test_every_kind_of_flow_between_pods_is_dropped_where_nothing_lets_it_in(
    deployed: Deployed,
) -> None:
    kinds: set[str] = set()
    for file in (each for each in FILES if each.parent.name in _WITH_FLOWS):
        for source in clusters_of(registered(file, deployed), ()):
            bodies = [with_whole_numbers(each.body) for each in source.documents]
            found = [each for each in flows(bodies) if each.sender is not each.receiver]
            kinds |= {each.what for each in found}
            others = [body for body in bodies if body["kind"] != "NetworkPolicy"]
            assert len(unreached([*others, *closing(bodies)])) == len(
                {(each.name, each.port) for each in found}
            )
    assert kinds == {"fallback", "picker", "prefill", "replicas", "service", "webhook"}


def test_a_relay_that_only_reaches_pods_is_cut_off_from_google(deployed: Deployed) -> None:
    file = next(each for each in FILES if each.parent.name == "backends")
    (source, *_) = clusters_of(registered(file, deployed), ())
    bodies = [with_whole_numbers(each.body) for each in source.documents]
    policies = [
        body
        for body in bodies
        if body["kind"] == "NetworkPolicy" and "Egress" in body["spec"]["policyTypes"]
    ]
    assert policies
    for each in policies:
        each["spec"]["egress"] = [{"to": [{"podSelector": {}}]}]
    assert len(cut_off(bodies)) == len(policies) * len(GOOGLE)


def closing(bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a policy for each namespace that lets nothing in."""
    spaces = {str(body["metadata"].get("namespace", "")) for body in bodies}
    return [
        {
            "kind": "NetworkPolicy",
            "metadata": {"name": "closed", "namespace": space},
            "spec": {"podSelector": {}},
        }
        for space in sorted(spaces)
    ]


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
