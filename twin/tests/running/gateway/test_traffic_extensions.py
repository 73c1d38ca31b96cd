"""Traffic extensions with the real Envoy: order, changes, bodies, failures and conditions."""

import http.client
import json
import time
from typing import Any

import pytest

from twin.tests.eventually import eventually
from twin.tests.running.gateway.house import (
    ADDRESS,
    ENGINES,
    PORT,
    REQUEST,
    RESPONSE,
    ask,
    called,
    chain,
    traffic,
)
from twin.tests.running.gateway.processors import (
    event_of,
    go_on,
    headers_of,
    metadata_of,
    pass_on,
    refuse,
    replace_body,
    send_body,
)
from twin.tests.unit.gateway.builders import obj

pytestmark = pytest.mark.needs_tools


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


def test_a_guard_sees_the_client_and_the_address_of_the_gateway_behind_what_the_client_wrote(house):
    house.program(traffic(chain("all", called("guard"))))
    assert ask(headers={"X-Forwarded-For": "198.51.100.1"}).status == 200
    seen = headers_of(house.guard.first("request_headers"))["x-forwarded-for"]
    written, _client, own = seen.split(",")
    assert (written, own) == ("198.51.100.1", ADDRESS)


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


@pytest.mark.parametrize("removes", [False, True])
def test_a_guard_removes_the_header_that_the_picker_adds_and_the_filter_of_a_route_does_not(
    house, removes: bool
):
    added = "x-went-into-resp-headers"
    modifier = {"remove": ["server", added]}
    house.filters = [{"type": "ResponseHeaderModifier", "responseHeaderModifier": modifier}]
    house.program(traffic(chain("all", called("guard", supportedEvents=["ResponseHeaders"]))))
    house.filters = []
    chosen = house.picker.answers

    def mark(request: Any, memory: dict[str, Any]) -> list[Any]:
        event = event_of(request)
        told = event == "response_headers"
        return [go_on(event, {added: "true"})] if told else chosen(request, memory)

    house.picker.answers = mark
    removed = (added,) if removes else ()
    house.guard.answers = lambda request, _: [go_on(event_of(request), remove=removed)]
    found = ask()
    assert found.status == 200
    assert "server" not in headers_of(house.picker.first("response_headers"))
    assert ({"server", added} & {name.lower() for name in found.headers}) == (
        set() if removes else {added}
    )


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


@pytest.mark.parametrize(("seconds", "is_whole"), [(1, False), (20, True)])
def test_an_answer_that_outlasts_the_timeout_of_a_guard_is_cut_off(house, seconds, is_whole):
    modes = {
        "requestBodySendMode": "FullDuplexStreamed",
        "responseBodySendMode": "FullDuplexStreamed",
    }
    guard = called("guard", supportedEvents=[*REQUEST, *RESPONSE], **modes)
    target = {"group": "", "kind": "Service", "name": "guard"}
    limit = obj(
        "GCPBackendPolicy",
        "guard",
        spec={"targetRef": target, "default": {"timeoutSec": seconds}},
    )
    house.program(traffic(chain("all", guard)), limit)
    house.guard.answers = pass_on
    try:
        whole = ask(stream=True, max_tokens=20, gap=0.1).text
    except http.client.IncompleteRead:
        whole = ""
    assert ("[DONE]" in whole) == is_whole


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


def test_a_plugin_that_the_twin_cannot_run_lets_no_request_pass(house):
    plugin = {"kind": "GCPWasmPlugin", "name": "plugin"}
    house.program(traffic(chain("all", called("guard", backendRef=plugin))))
    assert ask().status == 500
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
