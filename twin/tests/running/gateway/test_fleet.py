"""A gateway over two clusters: real Envoys, the clusters' controllers, and replicas that count."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from twin.cluster.base.context import ClusterSpec
from twin.cluster.gateway.controller import GatewayController, stop_all
from twin.cluster.gateway.translation.conditions import StatusUpdate
from twin.host.paths import TwinPaths
from twin.tests.eventually import eventually
from twin.tests.unit.gateway.builders import gateway_class, obj, pod, policy, pool, route
from twin.toolchain import tool
from twin.world.capacity import World
from twin.world.store import Store, new_record

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(180)]

CLASS = "gke-l7-cross-regional-internal-managed-mc"
REGIONS = {"us-central1": "127.47.7.1", "europe-west4": "127.47.7.2"}
"""Address of the one replica of each region."""
IMPORT = {"group": "networking.gke.io", "kind": "GCPInferencePoolImport", "name": "m"}
PORT = 8090
PROJECT = "acme"


class Replica:
    """An engine that answers with its region and reports its KV cache use."""

    def __init__(self, region: str) -> None:
        self.used = 0.0
        replica = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                text = f'vllm:kv_cache_usage_perc{{engine="0"}} {replica.used}\n'
                text = text if self.path == "/metrics" else f"{region} {self.path}"
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                del format, args

        self.server = ThreadingHTTPServer((REGIONS[region], 8000), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()


class Api:
    """The API server of a cluster, as far as a fleet writes to it."""

    def __init__(self) -> None:
        self.applied: dict[tuple[str, str], Any] = {}

    def apply(self, body: Any, **_: object) -> None:
        self.applied[body["kind"], body["metadata"]["name"]] = body

    def delete(self, path: str) -> None:
        kind, name = path.split("/")
        self.applied.pop((kind, name))

    def path_of(self, body: Any) -> str:
        return f"{body['kind']}/{body['metadata']['name']}"

    def list(self, path: str) -> list[Any]:
        del path
        return []


class Member:
    """A cluster of the fleet with its gateway controller."""

    def __init__(self, paths: TwinPaths, region: str, block: int) -> None:
        folder = paths.root / region
        folder.mkdir(parents=True)
        (folder / "block").write_text(str(block))
        self.api, self.replica = Api(), Replica(region)
        self.statuses: dict[tuple[str, str], Any] = {}
        context: Any = SimpleNamespace(
            dir=folder,
            events=SimpleNamespace(emit=lambda *_, **__: None),
            kube=self.api,
            paths=paths,
            spec=ClusterSpec(PROJECT, region, region, (f"{region}-a",), False, "1.36", region),
            tool=tool,
        )
        controller: Any = GatewayController(context)
        self.controller = controller
        controller._reconcile_cloud = lambda *_: False
        controller._ctx = context
        for item in (gateway_class(CLASS), obj("Namespace", "ns", ""), *models(region)):
            self.put(item)

    def put(self, item: Any) -> None:
        self.controller._store.put(item["kind"], item)

    def write(self, item: Any, update: StatusUpdate) -> None:
        """Record a status, in place of a StatusWriter."""
        del item
        self.statuses[update.kind, update.key[1]] = update.status

    def round(self) -> None:
        self.controller._unsettled = True
        self.controller._round(self)


def models(region: str) -> list[Any]:
    made = pool("m", "FailOpen")
    made["metadata"]["annotations"] = {"networking.gke.io/export": "True"}
    metric = {"name": "vllm:kv_cache_usage_perc", "exportName": "kv-cache"}
    endpoint = {"port": 8000, "path": "/metrics", "metrics": [metric]}
    spec = {"selector": {"matchLabels": {"model": "m"}}, "endpoints": [endpoint]}
    return [
        made,
        pod("m-0", REGIONS[region], {"model": "m"}),
        obj("AutoscalingMetric", "m", spec=spec),
    ]


def configured() -> list[Any]:
    """Return the objects of the config cluster."""
    kind = "networking.gke.io/ephemeral-ipv4-address/"
    addresses = [{"type": f"{kind}{region}", "value": region} for region in REGIONS]
    listener = {
        "name": "http",
        "port": PORT,
        "protocol": "HTTP",
        "allowedRoutes": {"namespaces": {"from": "Same"}},
    }
    spec = {"gatewayClassName": CLASS, "addresses": addresses, "listeners": [listener]}
    rewrite = {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/v1"}}
    rule = {
        "backendRefs": [IMPORT],
        "filters": [{"type": "URLRewrite", "urlRewrite": rewrite}],
        "matches": [{"path": {"type": "PathPrefix", "value": "/models/m/v1"}}],
    }
    metric = {"name": "gke.named_metrics.kv-cache", "dryRun": False, "maxUtilizationPercent": 60}
    check = {"type": "HTTP", "httpHealthCheck": {"requestPath": "/health", "port": 8000}}
    return [
        obj("Gateway", "gw", spec=spec),
        route("m", rule),
        policy("HealthCheckPolicy", "m", IMPORT, checkIntervalSec=1, timeoutSec=1, config=check),
        policy(
            "GCPBackendPolicy",
            "m",
            IMPORT,
            balancingMode="CUSTOM_METRICS",
            customMetrics=[metric],
            timeoutSec=20,
        ),
    ]


def enable(paths: TwinPaths) -> None:
    """Put the fleet with its features, and the subnets of its proxies, into the cloud."""
    paths.cloud_db.parent.mkdir(parents=True, exist_ok=True)
    store = Store(paths.cloud_db)
    config = {"multiclusteringress": {"configMembership": f"x/memberships/{next(iter(REGIONS))}"}}
    wanted: list[tuple[str, str, Any]] = [
        ("gkehub/feature:Feature", "multiclusterservicediscovery", {}),
        ("gkehub/feature:Feature", "multiclusteringress", {"spec": config}),
    ]
    for region in REGIONS:
        link = f"//container.googleapis.com/projects/{PROJECT}/locations/{region}/clusters/{region}"
        inputs = {"endpoint": {"gkeCluster": {"resourceLink": link}}}
        wanted.append(("gkehub/membership:Membership", region, inputs))
        proxies = {"purpose": "GLOBAL_MANAGED_PROXY", "region": region}
        wanted.append(("compute/subnetwork:Subnetwork", f"proxies-{region}", proxies))
    for kind, name, inputs in wanted:
        token = f"gcp:{kind}"
        store.add(new_record(token, name, name, PROJECT, name, inputs, {}), [])
        store.set(token, name, status="ready")


@pytest.fixture(name="members")
def some_members(tmp_path: Path) -> Iterator[dict[str, Member]]:
    paths = TwinPaths(tmp_path / "twin")
    enable(paths)
    found = {region: Member(paths, region, 30 + at) for at, region in enumerate(REGIONS)}
    config, _ = found.values()
    for item in configured():
        config.put(item)
    yield found
    for member in found.values():
        stop_all(member.controller._ctx.dir)
        member.replica.server.shutdown()
        member.replica.server.server_close()


def answer(member: Member) -> str:
    """Return who answers a request at the address of a member's region, or the status."""
    address = member.controller._member._address(252)
    connection = HTTPConnection(address, PORT, timeout=5)
    try:
        connection.request("GET", "/models/m/v1/models")
        response = connection.getresponse()
        text = response.read().decode()
        return text if response.status == 200 else str(response.status)
    except (OSError, HTTPException):
        return "refused"
    finally:
        connection.close()


def rounds(members: dict[str, Member]) -> None:
    for member in members.values():
        member.round()


def test_a_gateway_over_two_clusters_serves_the_nearest_region_and_overflows(members):
    america, europe = members.values()
    served = {
        each: f"{region} /v1/models" for region, each in zip(REGIONS, members.values(), strict=True)
    }

    def both() -> bool:
        rounds(members)
        return [answer(each) for each in (america, europe)] == list(served.values())

    eventually(both, 60)
    assert ("GCPInferencePoolImport", "m") in america.api.applied
    assert europe.api.applied == {}
    status = america.statuses["Gateway", "gw"]
    found = [each["value"] for each in status["addresses"]]
    assert found == [each.controller._member._address(252) for each in (america, europe)]
    parents = america.statuses["HTTPRoute", "m"]["parents"]
    assert all(each["status"] == "True" for each in parents[0]["conditions"])

    europe.replica.used = 0.9  # of a target of 0.6

    def overflows() -> bool:
        rounds(members)
        counts = Counter(answer(europe) for _ in range(20))
        return counts[served[america]] > 10

    eventually(overflows, 60)
    assert answer(america) == served[america]
    europe.replica.used = 0.1

    def comes_back() -> bool:
        rounds(members)
        return Counter(answer(europe) for _ in range(20)) == {served[europe]: 20}

    eventually(comes_back, 60)

    drained = next(each for each in models("europe-west4") if each["kind"] == "InferencePool")
    drained["metadata"].pop("annotations")
    europe.put(drained)

    def is_drained() -> bool:
        rounds(members)
        return answer(europe) == served[america]

    eventually(is_drained, 30)


def test_a_lost_region_is_served_by_the_others_and_returns(members):
    america, europe = members.values()
    paths = america.controller._ctx.paths

    def all_serve() -> bool:
        rounds(members)
        return [answer(each)[:2] for each in (america, europe)] == ["us", "eu"]

    eventually(all_serve, 60)
    World(outages=("us-central1-*",)).save(paths.capacity_file)  # with the config cluster
    rounds(members)
    assert answer(america) == "refused"
    assert answer(europe) == "europe-west4 /v1/models"
    World(outages=("europe-west4-*",)).save(paths.capacity_file)
    since = time.monotonic()

    def america_serves() -> bool:
        rounds(members)
        return answer(america) == "us-central1 /v1/models" and answer(europe) == "refused"

    eventually(america_serves, 30)
    assert time.monotonic() - since < 20
    World().save(paths.capacity_file)
    eventually(all_serve, 30)


def test_a_cluster_that_is_no_config_cluster_accepts_no_gateway_over_a_fleet(members):
    _, europe = members.values()
    europe.put(configured()[0])
    europe.round()
    accepted = europe.statuses["Gateway", "gw"]["conditions"][0]
    assert (accepted["type"], accepted["status"]) == ("Accepted", "False")
    assert "must be the config cluster" in accepted["message"]
