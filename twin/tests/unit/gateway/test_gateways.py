"""Gateways translated: addresses, extensions, certificates, statuses."""

import base64
from typing import Any

import pytest

from gke_inference.catalogue.url_maps import MAX_URL_MAP_BYTES, url_map_bytes
from twin.cluster.gateway import named
from twin.cluster.gateway.translation.gateways import programmed
from twin.cluster.gateway.translation.objects import NamedAddress
from twin.cluster.gateway.translation.translate import translate
from twin.host.paths import TwinPaths
from twin.tests.unit.gateway.builders import (
    conditions,
    gateway,
    model,
    obj,
    route,
    rule,
    snapshot,
    to_pool,
)
from twin.world.store import Store, new_record

GW = ("ns", "gw")


def test_a_reserved_address_is_found_in_the_clouds_state(tmp_path):
    paths = TwinPaths(tmp_path)
    kind = "gcp:compute/address:Address"
    store = Store(paths.cloud_db)
    for region, address in (("us-central1", "127.32.0.7"), ("us-east1", "127.32.0.8")):
        path = f"projects/p/regions/{region}/addresses/models"
        outputs = {"address": address, "region": region}
        store.add(new_record(kind, path, "models", "p", "urn", {}, outputs), [])
        store.set(kind, path, status="ready")
    found = named.address_named(paths, "us-east1", "models")
    assert found == NamedAddress("127.32.0.8", "PREMIUM")
    assert named.address_named(paths, "us-east1", "gone") is None
    assert named.address_named(paths, "us-west1", "models") is None


def test_a_regional_gateway_is_not_programmed_with_an_address_of_the_premium_tier():
    asked = gateway(addresses=[{"type": "NamedAddress", "value": "models"}])
    asked["spec"]["gatewayClassName"] = "gke-l7-regional-external-managed"
    premium = {"models": NamedAddress("127.32.0.9", "PREMIUM")}.get
    found = translate(snapshot(asked, address_named=premium))
    assert conditions(found, "Gateway", "gw")["Programmed"] == "!AddressNotUsable"
    assert "must be of network tier STANDARD" in str(found.statuses)


def test_named_addresses_are_looked_up():
    asked = gateway(addresses=[{"type": "NamedAddress", "value": "models"}])
    standard = {"models": NamedAddress("127.32.0.9", "STANDARD")}.get
    found = translate(snapshot(asked, address_named=standard))
    assert found.gateways[GW].address == "127.32.0.9"
    status = next(u.status for u in found.statuses if u.kind == "Gateway")
    assert status["addresses"] == [{"type": "IPAddress", "value": "127.32.0.9"}]


def test_a_gateway_without_address_is_served_on_the_first_loopback_address():
    assert translate(snapshot(gateway())).gateways[GW].address == "127.0.0.1"


@pytest.mark.parametrize(
    ("addresses", "condition", "reason"),
    [
        ([{"type": "NamedAddress", "value": "gone"}], "Programmed", "!AddressNotUsable"),
        ([{"type": "IPAddress", "value": "10.0.0.1"}], "Programmed", "!AddressNotUsable"),
        ([{"type": "IPAddress", "value": "nonsense"}], "Programmed", "!AddressNotUsable"),
        ([{"type": "Hostname", "value": "a.b"}], "Accepted", "!UnsupportedAddress"),
        ([{"value": "127.0.0.1"}, {"value": "127.0.0.2"}], "Accepted", "!UnsupportedAddress"),
    ],
)
def test_an_address_that_cannot_be_had_is_said(addresses, condition, reason):
    found = translate(snapshot(gateway(addresses=addresses)))
    assert found.gateways == {}
    assert conditions(found, "Gateway", "gw")[condition] == reason


def test_two_gateways_cannot_have_one_port_of_one_address():
    older = gateway()
    older["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    newer = gateway("b")
    newer["metadata"]["creationTimestamp"] = "2026-02-01T00:00:00Z"
    found = translate(snapshot(newer, older))
    assert set(found.gateways) == {GW}
    assert conditions(found, "Gateway", "b")["Programmed"] == "!AddressNotUsable"


def test_a_gateway_that_has_no_address_takes_no_port_from_another():
    lost = gateway("a", addresses=[{"type": "NamedAddress", "value": "gone"}])
    assert set(translate(snapshot(lost, gateway())).gateways) == {GW}


def test_https_listeners_take_their_certificates_from_secrets():
    listener = {
        "name": "https",
        "protocol": "HTTPS",
        "port": 8443,
        "tls": {"certificateRefs": [{"name": "cert"}]},
    }
    data = {
        "tls.crt": base64.b64encode(b"CHAIN").decode(),
        "tls.key": base64.b64encode(b"KEY").decode(),
    }
    found = translate(snapshot(gateway(listeners=[listener]), obj("Secret", "cert", data=data)))
    (certificate,) = found.gateways[GW].listeners[0].certificates
    assert (certificate.chain, certificate.key) == ("CHAIN", "KEY")


def test_a_listener_without_its_certificate_is_left_out_and_said():
    listeners = [
        {"name": "http", "protocol": "HTTP", "port": 8080},
        {
            "name": "https",
            "protocol": "HTTPS",
            "port": 8443,
            "tls": {"certificateRefs": [{"name": "gone"}]},
        },
    ]
    found = translate(snapshot(gateway(listeners=listeners)))
    assert [x.name for x in found.gateways[GW].listeners] == ["http"]
    assert conditions(found, "Gateway", "gw")["Accepted"] == "ListenersNotValid"


def test_envoy_decides_whether_a_gateway_is_programmed():
    found = translate(snapshot(gateway(), route("r", rule(to_pool("m"))), *model("m")))
    update = next(u for u in found.statuses if u.kind == "Gateway")
    for failure, expected in ((None, "True"), ("port taken", "False")):
        status = programmed(update, failure).status
        by_type = {c["type"]: c for c in status["conditions"]}
        assert by_type["Programmed"]["status"] == expected
        assert by_type["Programmed"]["message"] == (failure or "")
        assert status["listeners"][0]["attachedRoutes"] == 1


def test_a_route_that_lost_its_gateway_loses_its_status():
    lost = route("r", rule(), parentRefs=[{"name": "gone"}])
    lost["status"] = {"parents": [{"controllerName": "networking.gke.io/gateway"}]}
    found = translate(snapshot(lost))
    assert [u.status for u in found.statuses if u.kind == "HTTPRoute"] == [{"parents": []}]


def test_a_gateway_whose_routes_do_not_fit_into_a_url_map_is_not_programmed():
    def named(count: int) -> list[Any]:
        header = {"name": "X-Gateway-Model-Name"}
        return [
            route(
                f"r{n}", rule(to_pool("m"), matches=[{"headers": [{**header, "value": f"m{n}"}]}])
            )
            for n in range(count)
        ]

    fits = url_map_bytes(named(100)) // 100
    most = MAX_URL_MAP_BYTES // (fits + 4)  # numbers of four digits are longer
    assert 2000 < most < 3000  # of routes without filters
    found = translate(snapshot(gateway(), *model("m"), *named(most)))
    assert conditions(found, "Gateway", "gw")["Programmed"] == "!Pending"
    found = translate(snapshot(gateway(), *model("m"), *named(most + 100)))
    assert conditions(found, "Gateway", "gw")["Programmed"] == "!Invalid"
    assert "'URL map: must be at most 1,000,000 bytes, got about 1,0" in str(found.statuses)
    assert found.gateways == {}
