"""Cloud Armor rules in a real Envoy: who is refused, with what, and for how long."""

import http.client
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from twin.cluster.gateway.envoy.armor import armor_filter, armor_route
from twin.cluster.gateway.envoy.messages import EnvoyJson, extension, response, typed
from twin.cluster.gateway.envoy.process import EnvoyProcess
from twin.host.ports import free_port
from twin.providers.gcp.checks.armor_language import parse
from twin.providers.gcp.resources.security_policies import Answer, ArmorRule, Limit, Rate
from twin.tests.tools import needed

pytestmark = pytest.mark.needs_tools

TOO_MANY = Answer(429)
LONG = 3600
FEW_KEYS = 8  # so that the tests themselves make the filter forget


def limited(*keys: tuple[str, str], count: int = 1, seconds: int = LONG, **more: Any) -> Limit:
    return Limit(Rate(count, seconds), TOO_MANY, keys, **more)


BACKENDS: dict[str, tuple[ArmorRule, ...]] = {
    "free": (),
    "window": (ArmorRule(1, limit=limited(count=2, seconds=1)),),
    "ip": (ArmorRule(1, limit=limited(("IP", ""))),),
    "xff": (ArmorRule(1, limit=limited(("XFF_IP", ""))),),
    "header": (ArmorRule(1, limit=limited(("HTTP_HEADER", "x-team"))),),
    "cookie": (ArmorRule(1, limit=limited(("HTTP_COOKIE", "user"))),),
    "both": (ArmorRule(1, limit=limited(("HTTP_HEADER", "x-team"), ("HTTP_PATH", ""))),),
    "ban": (ArmorRule(1, limit=limited(seconds=1, ban_seconds=2)),),
    "late-ban": (ArmorRule(1, limit=limited(seconds=1, ban_seconds=LONG, ban=Rate(2, LONG))),),
    "moved": (ArmorRule(1, limit=Limit(Rate(1, LONG), Answer(302, "https://example.com/busy"))),),
    "order": (
        ArmorRule(1, parse("has(request.headers['x-known'])")),
        ArmorRule(
            2, parse("request.method == 'GET' && !(request.path == '/order/a')"), Answer(404)
        ),
        ArmorRule(3, parse("int(request.headers['x-size']) > 5"), Answer(502)),
        ArmorRule(4, limit=limited()),
    ),
}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("armor")
    binary = needed("envoy")
    listens = free_port()
    routes: list[EnvoyJson] = [
        {
            "match": {"prefix": f"/{name}"},
            "direct_response": {"status": 200},
            "typed_per_filter_config": {"twin.armor": armor_route(name, rules)} if rules else {},
        }
        for name, rules in BACKENDS.items()
    ]
    manager = typed(
        "hcm",
        stat_prefix="armor",
        route_config={
            "name": "armor",
            "virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}],
        },
        http_filters=[armor_filter(FEW_KEYS), extension("envoy.filters.http.router", "router")],
        use_remote_address=True,
    )
    listener: EnvoyJson = {
        "name": "armor",
        "address": {"socket_address": {"address": "127.0.0.1", "port_value": listens}},
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "envoy.filters.network.http_connection_manager",
                        "typed_config": manager,
                    }
                ]
            }
        ],
    }
    (folder / "lds.json").write_text(json.dumps(response("listener", "1", [listener])))
    (folder / "cds.json").write_text(json.dumps(response("cluster", "1", [])))
    process = EnvoyProcess(folder, folder / "envoy.log", binary)
    process.start()
    try:
        problem = process.await_listeners({"armor"}, 1, 10)
        assert not problem, problem
        yield listens
    finally:
        process.stop()


@pytest.fixture
def ask(port: int) -> Callable[..., int]:
    def send(path: str, source: str = "127.0.0.1", **headers: str) -> int:
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        connection = http.client.HTTPConnection(
            "127.0.0.1", port, timeout=10, source_address=(source, 0)
        )
        try:
            connection.request("GET", path, headers=named)
            found = connection.getresponse()
            found.read()
            if found.status == 302:
                assert found.headers["location"] == "https://example.com/busy"
            return found.status
        finally:
            connection.close()

    return send


Ask = Callable[..., int]


def test_requests_above_the_rate_are_refused_until_the_interval_ends(ask: Ask) -> None:
    assert [ask("/window") for _ in range(4)] == [200, 200, 429, 429]
    assert {ask("/free") for _ in range(4)} == {200}
    time.sleep(1.1)
    assert [ask("/window") for _ in range(3)] == [200, 200, 429]


def test_each_value_of_a_key_is_counted_separately(ask: Ask) -> None:
    assert [ask("/ip"), ask("/ip"), ask("/ip", "127.0.0.9")] == [200, 429, 200]
    forwarded = [("a", "203.0.113.1, 10.0.0.1"), ("b", "203.0.113.1"), ("c", "2001:db8::1")]
    assert [ask("/xff", x_forwarded_for=each) for _, each in forwarded] == [200, 429, 200]
    assert [ask("/header", x_team=team) for team in ("a", "a", "b", "b")] == [200, 429, 200, 429]
    long = "x" * 128
    assert [ask("/header", x_team=long + end) for end in ("1", "2")] == [200, 429], "128 bytes"
    assert [ask("/cookie", cookie=f"a=1; user={user}") for user in "xyx"] == [200, 200, 429]
    asked = [("/both/1", "a"), ("/both/1?q", "a"), ("/both/2", "a"), ("/both/1", "b")]
    assert [ask(path, x_team=team) for path, team in asked] == [200, 429, 200, 200]


def test_clients_are_counted_separately_however_many_there_are(ask: Ask) -> None:
    many = [f"198.51.100.{host}" for host in range(4 * FEW_KEYS)]
    assert {ask("/xff", x_forwarded_for=each) for each in many} == {200}
    assert {ask("/xff", x_forwarded_for=each) for each in many} == {429}


def test_without_its_key_a_request_counts_with_all_others_or_by_its_address(ask: Ask) -> None:
    assert [ask("/header"), ask("/header", "127.0.0.9")] == [200, 429]
    sources = [("127.0.0.1", "nobody"), ("127.0.0.1", "else"), ("127.0.0.9", "nobody")]
    found = [ask("/xff", source, x_forwarded_for=text) for source, text in sources]
    assert found == [200, 429, 200]


def test_a_ban_outlasts_the_interval_and_ends(ask: Ask) -> None:
    assert [ask("/ban"), ask("/ban")] == [200, 429]
    time.sleep(1.2)
    assert ask("/ban") == 429, "within the rate, but banned"
    time.sleep(1.2)
    assert ask("/ban") == 200


def test_a_ban_with_a_threshold_of_its_own_begins_above_that(ask: Ask) -> None:
    assert [ask("/late-ban") for _ in range(3)] == [200, 429, 429]
    time.sleep(1.1)
    assert [ask("/late-ban") for _ in range(2)] == [200, 429], "the third above the rate"
    time.sleep(1.1)
    assert ask("/late-ban") == 429


def test_requests_above_a_rate_can_be_redirected(ask: Ask) -> None:
    assert [ask("/moved"), ask("/moved")] == [200, 302]


def test_the_first_rule_that_matches_decides_before_any_rate_is_counted(ask: Ask) -> None:
    assert {ask("/order/b", x_known="1") for _ in range(3)} == {200}
    assert [ask("/order/b"), ask("/order/a?b", x_size="6")] == [404, 502]
    assert [ask("/order/a?b", x_size="five"), ask("/order/a", x_size="5")] == [200, 429]
