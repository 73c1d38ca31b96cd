"""Global load balancers from the twin's cloud, and the answers of Cloud DNS."""

from pathlib import Path
from typing import Any

import pytest

from gke_inference.catalogue.load_balancing import HEALTH_PATH
from gke_inference.catalogue.nearness import by_nearness
from twin.cluster.gateway.translation.model import Certificate
from twin.front.dns import Probe, Prober, answer, probes, resolve
from twin.front.envoy import cluster_name, clusters, listener
from twin.front.model import Front, Outliers, Region
from twin.front.translate import fronts
from twin.providers.gcp.resources.references import FORWARDING_RULE
from twin.tests.fronts import ADDRESS, REGIONS, create, let_people_in, make_front
from twin.tests.unit.gcp.conftest import PROJECT, Cloud, without_waits
from twin.world.nearness import CLIENT_REGION

GATEWAYS = {region: f"127.32.251.{at}" for at, region in enumerate(REGIONS, 1)}


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    return Cloud(without_waits(tmp_path / "twin"))


def seen(cloud: Cloud) -> Front:
    (found,) = fronts(cloud.world.store.all(), lambda _name, _address: None)
    return found


def test_a_front_leads_to_the_address_that_each_gateway_binds(cloud: Cloud) -> None:
    make_front(cloud, GATEWAYS, 8080)
    front = seen(cloud)
    assert (front.address, front.port, front.problems) == (ADDRESS, 80, ())
    every, small = front.services
    assert every.regions == tuple(
        Region(name, address, 8080, f"10.3.{at}.2")
        for at, (name, address) in enumerate(GATEWAYS.items())
    )
    assert every.outliers == Outliers(
        errors=20,
        errors_percent=100,
        failures=20,
        failures_percent=100,
        interval_seconds=1,
        ejection_seconds=30,
        most_percent=50,
    )
    assert [region.name for region in small.regions] == ["us-central1"]
    assert (front.default, front.retries) == (every.name, 2)
    (path,) = front.paths
    assert (path.prefix, path.rewrite, path.service) == ("/models/small/", "/", small.name)


def test_a_gateway_that_is_gone_is_no_backend_and_the_front_says_so(cloud: Cloud) -> None:
    make_front(cloud, GATEWAYS, 8080)
    path = f"projects/{PROJECT}/regions/europe-west4/forwardingRules/gkegw1-europe-west4"
    cloud.world.store.remove(FORWARDING_RULE, path)
    front = seen(cloud)
    assert [region.name for region in front.services[0].regions] == [REGIONS[0], REGIONS[2]]
    assert front.problems == (
        "group-europe-west4: the forwarding rule behind published-europe-west4 is gone",
    )


def test_a_gateway_that_lost_global_access_is_no_backend(cloud: Cloud) -> None:
    make_front(cloud, GATEWAYS, 8080)
    store = cloud.world.store
    (rule, *_) = store.find(FORWARDING_RULE, "gkegw1-europe-west4")
    store.set(rule.type, rule.id, outputs={**rule.outputs, "allowGlobalAccess": False})
    assert len(seen(cloud).services[0].regions) == 2


def test_nearer_regions_come_first_and_others_after_them(cloud: Cloud) -> None:
    make_front(cloud, GATEWAYS, 8080)
    front = seen(cloud)
    found = {each["name"]: each for each in clusters(front)}
    name = cluster_name(front.services[0].name, "europe-west4")
    endpoints = found[name]["load_assignment"]["endpoints"]
    assert [(each["priority"], each["locality"]["region"]) for each in endpoints] == [
        (0, "europe-west4"),
        (1, "us-central1"),
        (2, "asia-northeast1"),
    ]


def test_the_path_of_a_model_comes_before_the_plain_one(cloud: Cloud) -> None:
    make_front(cloud, GATEWAYS, 8080)
    chain = listener(seen(cloud), "log")["filter_chains"][0]
    manager = chain["filters"][0]["typed_config"]
    routes = manager["route_config"]["virtual_hosts"][0]["routes"]
    assert [each["match"]["prefix"] for each in routes] == ["/models/small/"] * 4 + ["/"] * 4
    header = routes[0]["match"]["headers"][0]
    assert (header["name"], header["string_match"]) == (CLIENT_REGION, {"exact": REGIONS[2]})


def test_only_the_hostname_of_people_asks_for_a_session(cloud: Cloud) -> None:
    make_front(cloud, GATEWAYS, 8080)
    let_people_in(cloud, "chat.test", "user:ada@example.com")
    front = seen(cloud)
    assert [each.signs_in for each in front.services] == [False, False, True]
    ((host, (path,)),) = front.hosts
    assert (host, path.service, path.host) == ("chat.test", front.services[2].name, "models.test")
    manager = listener(front, "log")["filter_chains"][0]["filters"][0]["typed_config"]
    assert "twin.sign_in" in [each["name"] for each in manager["http_filters"]]
    people, others = manager["route_config"]["virtual_hosts"]
    assert (people["domains"], others["domains"]) == (["chat.test", "chat.test:*"], ["*"])
    assert not [each for each in people["routes"] if "typed_per_filter_config" in each]
    off = [each["typed_per_filter_config"]["twin.sign_in"]["disabled"] for each in others["routes"]]
    assert off == [True] * len(others["routes"])
    assert clusters(front, 9)[-1]["name"] == "twin.sign_in"


def test_a_front_that_speaks_https_needs_its_certificate() -> None:
    assert Front("f", ADDRESS, 443).is_served is False
    assert Front("f", ADDRESS, 443, certificate=Certificate("c", "k")).is_served is True
    assert Front("f", ADDRESS, 80, is_tls=False).is_served is True


def test_a_cloud_without_a_front_has_none(cloud: Cloud) -> None:
    assert list(fronts(cloud.world.store.all(), lambda _name, _address: None)) == []


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        ("europe-west1", ["europe-west4", "us-west1", "us-east1", "asia-east1"]),
        ("us-west2", ["us-west1", "us-east1", "europe-west4", "asia-east1"]),
        ("asia-east1", ["asia-east1", "us-west1", "us-east1", "europe-west4"]),
        ("nowhere", ["us-west1", "us-east1", "europe-west4", "asia-east1"]),
    ],
)
def test_regions_are_ordered_by_nearness(client: str, expected: list[str]) -> None:
    given = ["us-west1", "us-east1", "europe-west4", "asia-east1"]
    assert by_nearness(client, given) == expected


def record(cloud: Cloud, **policy: Any) -> None:
    create(
        cloud,
        "dns/managedZone:ManagedZone",
        "example-com",
        description="of the test",
        dnsName="example.com.",
    )
    check = create(
        cloud,
        "compute/healthCheck:HealthCheck",
        "front",
        checkIntervalSec=30,
        httpsHealthCheck={"host": "models.example.com", "port": 443, "requestPath": HEALTH_PATH},
        sourceRegions=["asia-east1", "europe-west1", "us-central1"],
        unhealthyThreshold=2,
    )
    geos = [
        {"location": region, "healthCheckedTargets": {"externalEndpoints": [address]}}
        for region, address in GATEWAYS.items()
    ]
    inputs = {
        "managedZone": "example-com",
        "name": "models.example.com.",
        "routingPolicy": {"geos": geos, "healthCheck": check.id, **policy},
        "ttl": 30,
        "type": "A",
    }
    cloud.create("gcp:dns/recordSet:RecordSet", "front", inputs)


def asked(cloud: Cloud, client: str, *down: str) -> list[str]:
    unhealthy = {GATEWAYS[region] for region in down}
    records = cloud.world.store.all()
    return answer(records, "models.example.com", client, lambda each: each not in unhealthy)


def test_cloud_dns_answers_with_the_nearest_healthy_region(cloud: Cloud) -> None:
    record(cloud, enableGeoFencing=False)
    assert asked(cloud, "europe-west1") == [GATEWAYS["europe-west4"]]
    assert asked(cloud, "europe-west1", "europe-west4") == [GATEWAYS["us-central1"]]
    assert asked(cloud, "europe-west1", *REGIONS) == [GATEWAYS["europe-west4"]]


def test_a_fence_keeps_clients_at_their_lost_region(cloud: Cloud) -> None:
    record(cloud, enableGeoFencing=True)
    assert asked(cloud, "europe-west1", "europe-west4") == [GATEWAYS["europe-west4"]]


def test_a_name_without_a_record_has_no_address(cloud: Cloud) -> None:
    assert answer(cloud.world.store.all(), "models.example.com", "us-east1", lambda _: True) == []


def test_external_targets_are_probed_as_the_health_check_says(cloud: Cloud) -> None:
    record(cloud)
    assert next(probes(cloud.world.store.all())) == Probe(
        address=GATEWAYS["us-central1"],
        port=443,
        interval_seconds=30,
        failures=2,
        timeout_seconds=5,
        is_tls=True,
        host="models.example.com",
        path="/healthz",
    )


def test_a_target_is_left_out_after_two_failed_probes(cloud: Cloud, monkeypatch) -> None:
    record(cloud)
    lost = {GATEWAYS["europe-west4"]}
    monkeypatch.setattr("twin.front.dns.answers", lambda probe: probe.address not in lost)
    prober, client = Prober(cloud.paths), "europe-west1"
    nearest, other = [GATEWAYS["europe-west4"]], [GATEWAYS["us-central1"]]
    for now, expected in ((0, nearest), (29, nearest), (30, other)):
        prober.round(now)
        assert resolve(cloud.paths, "models.example.com", client) == expected
    lost.clear()
    prober.round(60)
    assert resolve(cloud.paths, "models.example.com", client) == nearest
