"""What pods reach of Google, by NetworkPolicies and by the firewall of their VPC."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from twin.cluster.agent import pod as agent_pod
from twin.cluster.agent.config_versions import ConfigVersions
from twin.cluster.agent.images import Images
from twin.cluster.agent.launching.claims import Kind
from twin.cluster.agent.launching.environment import ConfigError
from twin.cluster.agent.launching.google_access import GoogleAccess, access_of
from twin.cluster.agent.launching.place import Launch
from twin.cluster.base.context import ClusterSpec
from twin.host.paths import TwinPaths
from twin.world.events import Events
from twin.world.rules import Rules
from twin.world.store import Store, Use, new_record

SPEC = ClusterSpec("p", "us-central1", "main", (), False, "1", "u")
NETWORK = "gcp:compute/network:Network"
NET = "projects/p/global/networks/net"
DATAPLANE = {"datapathProvider": "ADVANCED_DATAPATH"}
CALICO = {"networkPolicy": {"enabled": True}}
POD: Any = {
    "metadata": {"name": "c", "namespace": "models", "labels": {"app": "c"}, "uid": "u"},
    "spec": {"containers": [], "nodeName": "n"},
    "status": {"podIP": "127.64.0.2"},
}
NO_APIS = "models/c to 199.36.153.8:443: no NetworkPolicy of its namespace lets it out"
NO_IDENTITY = "models/c to 169.254.169.254:80: no NetworkPolicy of its namespace lets it out"
APIS = {"ports": [{"port": 443}], "to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}]}


def to_metadata(address: str, port: int) -> Any:
    return {"ports": [{"port": port}], "to": [{"ipBlock": {"cidr": f"{address}/32"}}]}


IDENTITY = to_metadata("169.254.169.254", 80)


def out(*rules: Any) -> Any:
    meta = {"name": "out", "namespace": "models"}
    spec = {"podSelector": {}, "policyTypes": ["Egress"], "egress": list(rules)}
    return {"metadata": meta, "spec": spec}


class Cluster:
    """A cluster of the twin with policies, in a network with egress rules."""

    def __init__(
        self, folder: Path, policies: list[Any], *firewall: dict[str, Any], **inputs: Any
    ) -> None:
        self.paths, self.spec, self.dir = TwinPaths(folder), SPEC, folder
        self.events, self.rules = Events(self.paths.events_file), Rules()
        self.kubeconfig, self.tool = folder / "kubeconfig", Path
        name = "projects/p/locations/us-central1/clusters/main"
        store = Store(self.paths.cloud_db)
        store.add(new_record(NETWORK, NET, "net", "p", "", {}, {}), [])
        given = {"network": NET, **inputs}
        store.add(new_record("gcp:container/cluster:Cluster", name, "main", "p", "", given, {}), [])
        for at, rule in enumerate({"direction": "EGRESS", **each} for each in firewall):
            path = f"projects/p/global/firewalls/{at}"
            record = new_record("gcp:compute/firewall:Firewall", path, f"{at}", "p", "", rule, {})
            store.add(record, [Use(NETWORK, NET, blocks=True)])
        listed = "/apis/networking.k8s.io/v1/namespaces/models/networkpolicies"
        self.kube = SimpleNamespace(
            get=lambda _: {"items": []}, list={listed: policies}.__getitem__
        )


def access(folder: Path, policies: list[Any], *firewall: Any, **inputs: Any) -> GoogleAccess:
    return access_of(cast(Any, Cluster(folder, policies, *firewall, **inputs)), POD)


@pytest.mark.parametrize(
    ("policies", "inputs", "expected"),
    [
        ([out()], DATAPLANE, GoogleAccess(NO_APIS, NO_IDENTITY)),
        ([out()], {}, GoogleAccess()),
        ([], DATAPLANE, GoogleAccess()),
        ([out(APIS)], DATAPLANE, GoogleAccess(metadata=NO_IDENTITY)),
        ([out(IDENTITY)], DATAPLANE, GoogleAccess(NO_APIS)),
        ([out(APIS, IDENTITY)], DATAPLANE, GoogleAccess()),
        ([out(APIS, to_metadata("169.254.169.252", 988))], CALICO, GoogleAccess()),
    ],
)
def test_the_policies_of_a_cluster_that_enforces_them_decide_what_a_pod_reaches(
    tmp_path: Path, policies: list[Any], inputs: Any, expected: GoogleAccess
):
    assert access(tmp_path, policies, **inputs) == expected


DENIAL: dict[str, Any] = {"denies": [{"protocol": "all"}], "destinationRanges": ["0.0.0.0/0"]}
TCP_443 = [{"protocol": "tcp", "ports": ["443"]}]
PRIVATE: dict[str, Any] = {"allows": TCP_443, "destinationRanges": ["199.36.153.8/30"]}
CLOSED = f"models/c to 199.36.153.8:443: a firewall rule of {NET} denies egress"


@pytest.mark.parametrize(
    ("firewall", "reason"),
    [
        ([], ""),
        ([DENIAL], CLOSED),
        ([DENIAL, {**PRIVATE, "priority": 900}], ""),
        ([DENIAL, {**PRIVATE, "priority": 1100}], CLOSED),
        ([{**DENIAL, "destinationRanges": ["10.0.0.0/8"]}], ""),
        ([{**DENIAL, "targetTags": ["web"]}], ""),
    ],
)
def test_the_firewall_decides_about_googles_apis_in_every_cluster(
    tmp_path: Path, firewall: list[Any], reason: str
):
    assert access(tmp_path, [], *firewall) == GoogleAccess(reason)


def test_one_way_to_googles_apis_has_to_pass_both_policies_and_the_firewall(tmp_path: Path):
    restricted = {"ports": [{"port": 443}], "to": [{"ipBlock": {"cidr": "199.36.153.4/30"}}]}
    rules = [DENIAL, {**PRIVATE, "priority": 900}]
    assert access(tmp_path, [out(restricted, IDENTITY)], *rules, **DATAPLANE).apis == NO_APIS


def test_a_pod_on_the_host_network_is_not_subject_to_policies(tmp_path: Path):
    context: Any = Cluster(tmp_path, [out()], **DATAPLANE)
    node = {**POD, "spec": {**POD["spec"], "hostNetwork": True}}
    assert access_of(context, node) == GoogleAccess()


REAL = {
    "GCE_METADATA_HOST": "127.0.0.1:7000",
    "IAP_KEYS": "http://127.0.0.1:7001/keys",
    "PUBSUB_EMULATOR_HOST": "127.0.0.1:7002",
    "STORAGE_EMULATOR_HOST": "http://127.0.0.1:7003/as/a",
    "X": "1",
}
NOBODY = {
    "GCE_METADATA_HOST": "127.0.0.1:1",
    "IAP_KEYS": "http://127.0.0.1:1",
    "PUBSUB_EMULATOR_HOST": "127.0.0.1:1",
    "STORAGE_EMULATOR_HOST": "http://127.0.0.1:1",
}


@pytest.mark.parametrize(
    ("access", "kept"),
    [
        (GoogleAccess(), {*REAL}),
        (GoogleAccess("a", "b"), {"X"}),
        (GoogleAccess("a"), {"GCE_METADATA_HOST", "X"}),
        (GoogleAccess(metadata="b"), {"IAP_KEYS", "X"}),  # whose readers have no token
    ],
)
def test_nobody_answers_a_program_at_the_addresses_that_its_pod_does_not_reach(
    access: GoogleAccess, kept: set[str]
):
    expected = {name: (REAL if name in kept else NOBODY)[name] for name in REAL}
    assert access.applied(REAL) == expected


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Returns the variables of the program in a pod's container, and the cluster."""
    monkeypatch.setattr(agent_pod, "plan", lambda *_: Launch(Kind.STREAM, ["x"], REAL))
    monkeypatch.setattr(agent_pod, "api_server", lambda _: {})

    def start(*policies: Any) -> tuple[dict[str, str], Cluster]:
        context = Cluster(tmp_path, list(policies), **DATAPLANE)
        containers = [{"name": "stream", "image": "stream:1"}]
        pod = {**POD, "spec": {**POD["spec"], "containers": containers}}
        node = {"metadata": {"name": "n", "labels": {}}}
        images, configs = Images(context.rules), cast(ConfigVersions, None)
        runner = agent_pod.PodRunner(cast(Any, context), pod, node, images, configs)
        for _ in range(2):  # as after a first attempt that failed
            (container,) = runner._make_containers()
        return container.launch.environment, context

    return start


def test_a_pod_that_policies_cut_off_starts_with_nobodys_addresses_and_the_log_says_why(
    started: Any, caplog: pytest.LogCaptureFixture
):
    environment, context = started(out(APIS))
    assert environment["STORAGE_EMULATOR_HOST"] == "http://127.0.0.1:1"
    assert caplog.messages == [f"dropped: {NO_IDENTITY}"]
    (event,) = context.events.read()
    assert (event["kind"], event["subject"]) == ("pod.dropped", "models/c")
    assert event["message"] == NO_IDENTITY


def test_a_pod_that_policies_let_out_starts_with_the_twins_addresses(
    started: Any, caplog: pytest.LogCaptureFixture
):
    environment, context = started(out(APIS, IDENTITY))
    assert environment == REAL
    assert (caplog.messages, context.events.read()) == ([], [])


def test_a_bucket_is_mounted_by_a_pod_that_reaches_googles_apis():
    GoogleAccess(metadata="no token").check_mount()  # the driver of the node has it
    with pytest.raises(ConfigError, match="connection timed out: closed"):
        GoogleAccess("closed").check_mount()
