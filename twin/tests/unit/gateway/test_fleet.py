"""A fleet's gateway: shares of regions, tiers of endpoints, and what is refused."""

from typing import Any

import pytest

from twin.cluster.gateway.envoy.clusters import endpoints_of
from twin.cluster.gateway.metrics import value_of
from twin.cluster.gateway.translation.fleet import (
    Export,
    Fleet,
    Pool,
    next_kept,
    shares,
    tiers,
)
from twin.cluster.gateway.translation.model import Endpoint
from twin.cluster.gateway.translation.translate import translate
from twin.tests.unit.gateway.builders import (
    conditions,
    gateway,
    gateway_class,
    obj,
    policy,
    route,
    rule,
    snapshot,
    to_pool,
)

CLASS = "gke-l7-cross-regional-internal-managed-mc"
REGIONS = ("us-central1", "europe-west4", "asia-northeast1")
POOL: Pool = ("ns", "m")
IMPORT = {"group": "networking.gke.io", "kind": "GCPInferencePoolImport", "name": "m"}


def export(region: str, ready: int = 1) -> Export:
    return Export(region, Endpoint(f"127.1.1.{REGIONS.index(region) + 1}", 10_000), ready)


def fleet(region: str = "us-central1", kept: dict[str, float] | None = None) -> Fleet:
    addresses = {each: f"127.2.2.{at}" for at, each in enumerate(REGIONS, 1)}
    exports = {POOL: tuple(export(each) for each in REGIONS)}
    return Fleet(region, addresses, exports, {(POOL, r): k for r, k in (kept or {}).items()})


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ({}, {"a": 100}),
        ({"a": 0.5}, {"a": 50, "b": 50}),
        ({"a": 0.5, "b": 0.5}, {"a": 50, "b": 25, "c": 25}),
        ({"a": 0.5, "b": 0.5, "c": 0.2}, {"a": 62, "b": 31, "c": 6}),
    ],
)
def test_a_region_keeps_its_share_and_the_next_gets_the_rest(kept, expected):
    assert shares(["a", "b", "c"], kept) == expected


@pytest.mark.parametrize(
    ("kept", "used", "expected"),
    [(1.0, 0.3, 1.0), (1.0, 0.9, 0.5), (0.5, 0.45, 0.5), (0.1, 1.0, 0.05), (0.4, None, 1.0)],
)
def test_the_share_that_a_region_keeps_follows_its_load(kept, used, expected):
    assert next_kept(kept, used, 45) == pytest.approx(expected)


def test_other_regions_wait_behind_the_nearest_in_order():
    first, second, third = tiers(fleet("europe-west4"), POOL)
    assert first == ((export("europe-west4").endpoint, 100),)
    assert second == ((export("us-central1").endpoint, 1),)
    assert third == ((export("asia-northeast1").endpoint, 1),)


def test_a_region_without_ready_replicas_gets_no_requests():
    found = Fleet("us-central1", {}, {POOL: (export("us-central1", 0),)}, {})
    assert tiers(found, POOL) == ()


def test_a_model_of_one_region_is_reached_from_every_other():
    only = {POOL: (export("europe-west4"),)}
    for region in REGIONS:
        found = Fleet(region, {}, only, {})
        assert tiers(found, POOL) == (((export("europe-west4").endpoint, 100),),)


def fleet_gateway(*regions: str, kind: str = "ephemeral-ipv4-address") -> dict[str, Any]:
    addresses = [{"type": f"networking.gke.io/{kind}/{r}", "value": r} for r in regions]
    return gateway(gatewayClassName=CLASS, addresses=addresses)


def translated(*objects: dict[str, Any], of: Fleet | None = None) -> Any:
    return translate(snapshot(gateway_class(CLASS), *objects, fleet=of))


def imported() -> dict[str, Any]:
    return obj("GCPInferencePoolImport", "m")


def test_a_gateway_over_a_fleet_has_an_address_in_each_region_and_serves_one():
    made = fleet_gateway("europe-west4", "us-central1")
    found = translated(made, route("r", rule(IMPORT)), imported(), of=fleet())
    (status,) = (u.status for u in found.statuses if u.kind == "Gateway")
    assert [each["value"] for each in status["addresses"]] == ["127.2.2.2", "127.2.2.1"]
    model = found.gateways["ns", "gw"]
    assert model.address == "127.2.2.1"
    groups = endpoints_of(model)["import/ns/m"]["endpoints"]
    assert [each["priority"] for each in groups] == [0, 1, 2]
    assert groups[0]["lb_endpoints"][0]["load_balancing_weight"] == 100


def test_the_balance_of_an_imported_pool_is_enforced():
    balance = policy("GCPBackendPolicy", "p", IMPORT, balancingMode="CUSTOM_METRICS")
    balance["spec"]["default"]["customMetrics"] = [{"name": "x", "dryRun": False}]
    made = fleet_gateway("us-central1")
    found = translated(made, route("r", rule(IMPORT)), imported(), balance, of=fleet())
    assert conditions(found, "GCPBackendPolicy", "p") == {"Attached": "Attached"}


@pytest.mark.parametrize(
    ("made", "of", "reason"),
    [
        (fleet_gateway("us-central1"), None, "UnsupportedValue"),
        (fleet_gateway("us-central1", kind="named"), fleet(), "UnsupportedAddress"),
    ],
)
def test_a_gateway_over_a_fleet_that_google_refuses_is_not_accepted(made, of, reason):
    found = translated(made, of=of)
    assert found.gateways == {}
    assert conditions(found, "Gateway", "gw")["Accepted"] == f"!{reason}"


def test_a_gateway_gets_no_address_in_a_region_without_a_member():
    found = translated(fleet_gateway("us-central1", "us-east5"), of=fleet())
    assert conditions(found, "Gateway", "gw")["Programmed"] == "!AddressNotUsable"


def test_a_gateway_over_a_fleet_routes_to_imported_pools_only():
    found = translated(fleet_gateway("us-central1"), route("r", rule(to_pool("m"))), of=fleet())
    assert conditions(found, "HTTPRoute", "r")["ResolvedRefs"] == "!InvalidKind"


def test_a_route_to_a_pool_that_is_not_imported_yet_does_not_resolve():
    found = translated(fleet_gateway("us-central1"), route("r", rule(IMPORT)), of=fleet())
    assert conditions(found, "HTTPRoute", "r")["ResolvedRefs"] == "!BackendNotFound"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('# HELP x y\nx{engine="0"} 0.25\n', 0.25),
        ("xy 1\nx 2e-1\n", 0.2),
        ("xy 1\n", None),
    ],
)
def test_a_metric_is_read_with_or_without_labels(text, expected):
    assert value_of(text, "x") == expected
