"""Traffic extensions with the real Envoy: order, changes, bodies, failures and conditions."""

import http.client
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from twin.cluster.gateway.envoy.dataplane import DataPlane
from twin.cluster.gateway.translation.translate import translate
from twin.tests.eventually import eventually
from twin.tests.running.gateway.engines import Engines
from twin.tests.running.gateway.processors import (
    Processor,
    event_of,
    go_on,
    headers_of,
    metadata_of,
    pass_on,
    refuse,
    replace_body,
    send_body,
)
from twin.tests.unit.gateway.builders import (
    GATEWAY_API,
    body_router,
    gateway,
    obj,
    pod,
    pool,
    route,
    rule,
    service,
    snapshot,
    to_pool,
)
from twin.toolchain import tool

pytestmark = pytest.mark.needs_tools

_BLOCK = os.getpid() % 250
ADDRESS, PORT = f"127.33.{_BLOCK}.1", 18081
ENGINES = {"m": f"127.49.{_BLOCK}.1", "n": f"127.49.{_BLOCK}.2"}
REQUEST = ["RequestHeaders", "RequestBody", "RequestTrailers"]
RESPONSE = ["ResponseHeaders", "ResponseBody", "ResponseTrailers"]
H2C = {"appProtocol": "kubernetes.io/h2c"}


def called(name: str, **fields: Any) -> dict[str, Any]:
    """An extension that calls a Service of its name, for request headers."""
    ref = {"group": "", "kind": "Service", "name": name, "port": 9010}
    wanted = {"supportedEvents": ["RequestHeaders"], "timeout": "1s", "authority": f"{name}.test"}
    return {"name": name, "backendRef": ref, **wanted, **fields}


def chain(name: str, *extensions: dict[str, Any], when: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "extensions": list(extensions)}
    if when is not None:
        found["matchCondition"] = {"celExpressions": [{"celMatcher": when}]}
    return found


def traffic(*chains: dict[str, Any]) -> dict[str, Any]:
    target = {"group": GATEWAY_API, "kind": "Gateway", "name": "gw"}
    spec = {"targetRefs": [target], "extensionChains": list(chains)}
    return obj("GCPTrafficExtension", "guard", spec=spec)


class House:
    """A gateway with two pools, a routing extension, pickers, and two traffic extensions."""

    def __init__(self, folder: Path) -> None:
        self.log: list[str] = []
        self.engines = Engines()
        for address in ENGINES.values():
            self.engines.serve(address)
        self.router = self._processor("router", 3)
        self.picker = self._processor("picker", 4)
        self.guard = self._processor("guard", 5)
        self.second = self._processor("second", 6)
        self.programs = [self.router, self.picker, self.guard, self.second]
        self.plane = DataPlane(folder, "ns", "gw", tool("envoy"))

    def _processor(self, name: str, last: int) -> Processor:
        return Processor(name, f"127.49.{_BLOCK}.{last}", 9010, self.log)

    def program(self, *extensions: dict[str, Any], **gateway_fields: Any) -> None:
        """Give Envoy a gateway with these extensions and wait until it serves it."""
        asked = gateway(
            addresses=[{"type": "IPAddress", "value": ADDRESS}],
            listeners=[{"name": "http", "protocol": "HTTP", "port": PORT}],
            **gateway_fields,
        )
        objects: list[dict[str, Any]] = [asked, *extensions]
        router_ref = {"group": "", "kind": "Service", "name": "router", "port": 9010}
        objects += body_router(backendRef=router_ref)[:1]
        for program in self.programs:
            objects += [
                service(program.name, 9010, **H2C),
                pod(program.name, program.address, {"app": program.name}),
            ]
        for name, address in ENGINES.items():
            own = pool(name)
            own["spec"]["endpointPickerRef"] = {"name": "picker", "port": {"number": 9010}}
            match = {"headers": [{"name": "x-gateway-model-name", "value": name}]}
            objects += [
                own,
                pod(name, address, {"model": name}),
                route(name, rule(to_pool(name), matches=[match])),
            ]
        check = {"type": "HTTP", "httpHealthCheck": {"requestPath": "/health"}}
        for name in ENGINES:
            target = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": name}
            default = {"checkIntervalSec": 1, "config": check}
            spec = {"targetRef": target, "default": default}
            objects.append(obj("HealthCheckPolicy", name, spec=spec))
        model = translate(snapshot(*objects)).gateways["ns", "gw"]
        assert self.plane.apply(model) is None
        eventually(self._serves, 10)
        for program in self.programs:
            program.forget()
        self.router.answers, self.picker.answers = route_by_body, pick("m")
        self.log.clear()
        self.engines.seen.clear()
        self.engines.headers.clear()

    def _serves(self) -> bool:
        """Return whether Envoy has taken the last listener and every endpoint is healthy."""
        written = json.loads((self.plane.folder / "lds.json").read_text())["version_info"]
        dump = json.loads(self.plane.process.ask("/config_dump?resource=dynamic_listeners"))
        taken = self.plane.process.ask("/stats?filter=lds.version_text")
        if written not in taken or "warming_state" in dump["configs"][0]:
            return False
        answer = json.loads(self.plane.process.ask("/clusters?format=json"))
        hosts = [
            host["health_status"]
            for cluster in answer["cluster_statuses"]
            for host in cluster.get("host_statuses", [])
        ]
        return len(hosts) >= 5 and all(each == {"eds_health_status": "HEALTHY"} for each in hosts)

    def close(self) -> None:
        """End everything."""
        self.plane.process.stop()
        for program in self.programs:
            program.stop()
        self.engines.close()


def route_by_body(request: Any, memory: dict[str, Any]) -> list[Any]:
    """Name the model of the body in a header, as the body-based router does."""
    event = event_of(request)
    if event == "request_headers":
        return []
    if event != "request_body":
        return pass_on(request, memory)
    memory["body"] = memory.get("body", b"") + request.request_body.body
    if not request.request_body.end_of_stream:
        return []
    body = memory["body"]
    changes = {"x-gateway-model-name": json.loads(body)["model"]}
    starts = range(0, len(body), 64_000)
    pieces = [
        send_body("request_body", body[at : at + 64_000], end=at == starts[-1]) for at in starts
    ]
    return [go_on("request_headers", changes, clear_route=True), *pieces]


def pick(name: str) -> Any:
    """Choose the engine of a model."""

    def answers(request: Any, memory: dict[str, Any]) -> list[Any]:
        if event_of(request) != "request_headers":
            return pass_on(request, memory)
        endpoint = f"{ENGINES[name]}:8000"
        return [go_on("request_headers", {"x-gateway-destination-endpoint": endpoint})]

    return answers


@pytest.fixture(scope="module", name="house")
def a_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A gateway whose extensions each test chooses."""
    found = House(Path(tmp_path_factory.mktemp("traffic")))
    yield found
    found.close()


def ask(model: str = "m", headers: dict[str, str] | None = None, **fields: Any) -> SimpleNamespace:
    """Send one request and return its status, headers and body."""
    connection = http.client.HTTPConnection(ADDRESS, PORT, timeout=20)
    try:
        body = json.dumps({"model": model, **fields})
        sent = {"Content-Type": "application/json", **(headers or {})}
        connection.request("POST", "/v1/completions?a=b", body, sent)
        answer = connection.getresponse()
        return SimpleNamespace(
            status=answer.status, headers=dict(answer.getheaders()), text=answer.read().decode()
        )
    finally:
        connection.close()


def test_a_request_goes_to_router_guards_and_picker_and_its_answer_back(house):
    both = [
        called(name, supportedEvents=["RequestHeaders", "ResponseHeaders"])
        for name in ("guard", "second")
    ]
    house.program(traffic(chain("all", *both)))
    assert ask().status == 200
    order = [each for each in dict.fromkeys(house.log) if each.endswith("headers")]
    assert order == [
        "router request_headers",
        "guard request_headers",
        "second request_headers",
        "picker request_headers",
        "picker response_headers",
        "second response_headers",
        "guard response_headers",
    ]


def test_a_guard_answers_instead_of_the_engine_with_its_own_body(house):
    house.program(traffic(chain("all", called("guard"))))
    told = '{"error": {"message": "no key", "type": "AuthenticationError"}}'
    headers = {"content-type": "application/json", "www-authenticate": "Bearer"}
    house.guard.answers = lambda *_: [refuse(401, told, headers)]
    found = ask()
    assert (found.status, found.text) == (401, told)
    assert found.headers["content-type"] == "application/json"
    assert found.headers["www-authenticate"] == "Bearer"
    assert house.engines.seen == []
    assert "request_headers" not in house.picker.events()


def test_what_a_guard_changes_is_seen_by_picker_and_engine_and_changes_no_route(house):
    house.program(traffic(chain("all", called("guard"))))
    changes = {"x-tenant": "acme", "x-gateway-model-name": "n"}
    house.guard.answers = lambda *_: [go_on("request_headers", changes, clear_route=True)]
    assert json.loads(ask("m").text)["served_by"] == ENGINES["m"]
    assert headers_of(house.picker.first("request_headers"))["x-tenant"] == "acme"
    assert house.engines.headers[-1]["x-tenant"] == "acme"
    assert house.engines.headers[-1]["x-gateway-model-name"] == "n"


def test_a_guard_cannot_name_another_host(house):
    house.program(traffic(chain("all", called("guard"))))
    changes = {":authority": "evil.example", "host": "evil.example", "x-ok": "1"}
    house.guard.answers = lambda *_: [go_on("request_headers", changes)]
    assert ask().status == 200
    assert house.engines.headers[-1]["host"] == f"{ADDRESS}:{PORT}"


def test_bodies_stream_through_a_guard_both_ways(house):
    events = [*REQUEST, *RESPONSE]
    modes = {
        "requestBodySendMode": "FullDuplexStreamed",
        "responseBodySendMode": "FullDuplexStreamed",
    }
    house.program(traffic(chain("all", called("guard", supportedEvents=events, **modes))))

    def shout(request: Any, memory: dict[str, Any]) -> list[Any]:
        event = event_of(request)
        if event != "response_body":
            return pass_on(request, memory)
        part = request.response_body
        return [send_body(event, part.body.upper(), end=part.end_of_stream)]

    house.guard.answers = shout
    answer = ask(stream=True, max_tokens=4, gap=0.05, prompt="x" * 300_000)
    assert answer.text.count("DATA: {") == 4
    assert answer.text.endswith("[DONE]\n\n")
    sent = b"".join(r.request_body.body for r in house.guard.seen if event_of(r) == "request_body")
    assert len(json.loads(sent)["prompt"]) == 300_000
    pieces = [r for r in house.guard.seen if event_of(r) == "response_body"]
    assert len(pieces) >= 4  # as they come, not collected
    assert house.guard.events()[:2] == ["request_headers", "request_body"]


def test_streamed_bodies_are_answered_piece_by_piece(house):
    events = ["RequestHeaders", "RequestBody", "ResponseHeaders", "ResponseBody"]
    house.program(traffic(chain("all", called("guard", supportedEvents=events))))

    def censor(request: Any, _: dict[str, Any]) -> list[Any]:
        event = event_of(request)
        if event == "response_headers":
            return [go_on(event, {"x-checked": "yes"})]
        if event != "response_body":
            return [go_on(event)]
        return [replace_body(event, request.response_body.body.replace(b"served", b"checked"))]

    house.guard.answers = censor
    answer = ask(stream=True, max_tokens=2, gap=0.01)
    assert answer.text.count('"checked_by"') == 2
    assert answer.headers["x-checked"] == "yes"
    assert house.guard.events() == [
        "request_headers",
        "request_body",
        "response_headers",
        "response_body",
    ]


@pytest.mark.parametrize(("fail_open", "status"), [(False, 500), (True, 200)])
def test_a_guard_that_is_too_slow_ends_the_request_unless_it_fails_open(
    house, fail_open: bool, status: int
):
    house.program(traffic(chain("all", called("guard", timeout="100ms", failOpen=fail_open))))
    house.guard.delay_seconds = 1.0
    began = time.monotonic()
    found = ask()
    assert found.status == status
    assert time.monotonic() - began < 0.9
    if status == 500:
        assert json.loads(found.text)["error"]["type"] == "InternalServerError"
        assert house.engines.seen == []


@pytest.mark.parametrize(("fail_open", "status"), [(False, 500), (True, 200)])
def test_a_guard_that_is_gone_ends_requests_unless_it_fails_open(
    house, fail_open: bool, status: int
):
    missing = called("nobody", failOpen=fail_open)
    house.program(traffic(chain("all", missing)))
    assert ask().status == status


def test_a_message_that_is_too_large_counts_as_a_failure(house):
    house.program(traffic(chain("all", called("guard"))))
    house.guard.answers = lambda *_: [refuse(403, "x" * 140_000)]
    assert ask().status == 500


def test_the_first_chain_that_matches_runs_and_no_other(house):
    house.program(
        traffic(
            chain("acme", called("guard"), when="request.headers['x-tenant'] == 'acme'"),
            chain(
                "rest",
                called("second"),
                when="request.path.startsWith('/v1/') && request.method == 'POST'",
            ),
        )
    )
    # an extension that removes what its chain matched does not make the next one match
    house.guard.answers = lambda *_: [go_on("request_headers", {"x-tenant": "other"})]

    def runs(**headers: str) -> set[str]:
        house.log.clear()
        assert ask(headers={k.replace("_", "-"): v for k, v in headers.items()}).status == 200
        return {line.split()[0] for line in house.log} & {"guard", "second"}

    assert runs(x_tenant="acme") == {"guard"}
    assert runs(x_tenant="else") == {"second"}
    assert runs() == {"second"}


@pytest.mark.parametrize(
    ("condition", "matches"),
    [
        ("request.path == '/v1/completions'", True),
        ("request.query == 'a=b'", True),
        ("request.path.endsWith('b')", False),
        ("request.headers['x-tier'] != 'free'", False),  # absent: an error, so no match
        ("!(request.headers['x-tier'] == 'free')", False),
        ("request.headers['x-tier'] == 'free' || request.scheme == 'http'", True),
        ("request.headers['content-type'].contains('json')", True),
        ("request.headers['x-case'].lowerAscii() == 'abc'", True),
        ("request.headers['x-case'].matches('^A.C$')", True),
        ("int(request.headers['x-count']) > 2", True),
        ("request.host.startsWith('127.')", True),
        ("request.method + request.scheme == 'POSThttp'", True),
    ],
)
def test_a_condition_is_evaluated_on_the_request(house, condition: str, matches: bool):
    house.program(traffic(chain("some", called("guard"), when=condition)))
    assert ask(headers={"x-case": "AbC", "x-count": "3"}).status == 200
    assert bool(house.guard.seen) is matches


def test_a_guard_gets_the_headers_metadata_and_authority_it_is_to_have(house):
    wanted = called("guard", forwardHeaders=["Authorization", "x-one"], metadata={"mode": "strict"})
    house.program(traffic(chain("all", wanted)))
    ask(headers={"Authorization": "Bearer k", "X-One": "1", "X-Two": "2"})
    request = house.guard.first("request_headers")
    assert headers_of(request) == {"authorization": "Bearer k", "x-one": "1"}
    namespace = "com.google.lb_traffic_extension.guard.all.guard"
    assert metadata_of(request) == {namespace: {"mode": "strict"}}


def test_a_guard_that_observes_changes_nothing(house):
    house.program(traffic(chain("all", called("guard", observabilityMode=True))))
    house.guard.answers = lambda *_: [refuse(401, "no")]
    assert ask().status == 200
    eventually(lambda: house.guard.first("request_headers"), 5)


def test_a_refused_extension_leaves_its_gateway_serving(house):
    armor = {"backendRef": None, "googleAPIServiceName": "modelarmor.us-east5.rep.googleapis.com"}
    house.program(traffic(chain("all", called("guard", **armor))))
    assert ask().status == 200
