"""Authentication of callers, through a real Envoy."""

import json
import time
from types import SimpleNamespace

import pytest

from gke_inference.catalogue.load_balancing import HEALTH_PATH
from gke_inference.clients.people import token_of_people
from tests.running.callout.issuer import AUDIENCE, ISSUER, Issuer, unsigned
from tests.running.callout.world import CLIENT, bearer, key_entry, key_of, until
from twin.front import dns
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import sign_in

pytestmark = pytest.mark.needs_tools
PROMPT = {"model": "llama", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}


def test_a_request_passes_unchanged_with_the_headers_of_its_team(world):
    world.start()
    body = b'{ "model":"llama",  "max_tokens": 3, "prompt": "\xc3\xa9 \\u00e9 1.0e0" }\n'
    forged = {
        "x-gateway-inference-objective": "forged",
        "x-gateway-inference-fairness-id": "forged",
        "x-gateway-destination-endpoint": "10.0.0.1:8000",
        "x-prefiller-host-port": "10.0.0.1:8000",
        "x-llm-d-session": "forged",
        "x-llm-d-slo-ttft-ms": "200",
        "cookie": "session=1",
        "x-client-cert-spiffe": "forged",
        "x-gateway-model-name": "llama",
        "x-other": "stays",
    }
    answer = world.ask(body, {**bearer("ada"), **forged})
    assert answer.status == 200
    headers, seen = world.servers.requests[-1]
    assert seen == body
    assert headers["x-gateway-inference-objective"] == "batch"
    assert headers["x-gateway-inference-fairness-id"] == "research"
    assert headers["x-llm-d-inference-fairness-id"] == "research"
    assert headers["x-gateway-model-name"] == "llama"
    assert headers["x-other"] == "stays"
    assert headers["x-llm-d-slo-ttft-ms"] == "200", "a client may name its objective"
    gone = {"authorization", "cookie", "x-prefiller-host-port", "x-llm-d-session"}
    gone |= {"x-gateway-destination-endpoint", "accept-encoding", "x-client-cert-spiffe"}
    assert not gone & set(headers)


def test_a_large_body_passes_in_parts(world):
    world.start()
    body = json.dumps({"model": "llama", "max_tokens": 1, "prompt": "x" * 3_000_000}).encode()
    assert world.ask(body, bearer("ada")).status == 200
    assert world.servers.requests[-1][1] == body


def test_a_key_may_come_in_the_header_of_anthropics_clients(world):
    world.start()
    assert world.ask(PROMPT, {"x-api-key": key_of("ada")}, "/v1/messages").status == 200
    assert "x-api-key" not in world.servers.requests[-1][0]


def test_nobody_without_a_valid_key_reaches_an_engine(world):
    world.start()
    for headers in ({}, bearer("eve"), {"Authorization": "Bearer sk-1"}, {"Authorization": "x"}):
        answer = world.ask(PROMPT, headers)
        assert (answer.status, answer.code) == (401, "invalid_api_key")
        assert answer.headers["content-type"] == "application/json"
    assert world.servers.requests == []


def test_a_probe_passes_the_gate_without_a_key_and_is_not_counted(world):
    world.start()
    answer = world.ask(None, {"x-gki-team": "forged"}, HEALTH_PATH, "GET")
    assert (answer.status, answer.body) == (200, b"ok")
    assert world.servers.requests[-1][0].get("x-gki-team", "") == ""
    assert world.ask(PROMPT, {}, HEALTH_PATH).status == 401
    assert world.metric("callout_requests_total") == 0
    assert world.records() == []
    port = int(world.url.rpartition(":")[2])
    probe = dns.Probe("127.0.0.1", port, 30, host="models.example.com", path=HEALTH_PATH)
    assert dns.answers(probe)
    world.callouts[0].kill()
    assert not dns.answers(probe), "a region whose gate is away must fail over"


def test_a_key_of_a_team_that_is_not_set_up_is_refused(world):
    world.start()
    answer = world.ask(PROMPT, bearer("bob"))
    assert (answer.status, answer.code) == (403, "unknown_team")


def test_a_revoked_key_is_refused_within_five_seconds(world):
    world.start()
    assert world.ask(PROMPT, bearer("ada")).status == 200
    world.servers.keys = {"keys": [key_entry("bob", "web")]}
    assert until(lambda: world.ask(PROMPT, bearer("ada")).status == 401, 5.0) < 5.0


def test_keys_stay_valid_while_secret_manager_is_away_and_their_age_shows(world):
    world.start()
    assert world.ask(PROMPT, bearer("ada")).status == 200
    world.servers.keys = None
    until(lambda: world.metric("callout_key_document_age_seconds") > 3)
    assert world.ask(PROMPT, bearer("ada")).status == 200


def test_keys_that_were_never_read_let_nobody_in(world):
    world.servers.keys = None
    world.start()
    answer = world.ask(PROMPT, bearer("ada"))
    assert (answer.status, answer.code) == (503, "service_unavailable")
    assert world.servers.requests == []
    assert world.metric("callout_key_document_age_seconds") == -1


def test_a_change_of_the_file_counts_within_a_second(world):
    world.start()
    assert world.ask(PROMPT, bearer("bob")).status == 403
    teams = {"research": {"models": ["llama"]}, "web": {"models": ["*"]}}
    world.write(teams=teams)
    assert until(lambda: world.ask(PROMPT, bearer("bob")).status == 200, 2.0) < 1.2
    world.config_file.write_text("region: [")
    until(lambda: b"configuration refused" in world.callouts[0].log.read_bytes())
    assert world.ask(PROMPT, bearer("bob")).status == 200


def test_models_are_those_of_the_team(world):
    world.start()
    listed = world.ask(None, bearer("ada"), "/v1/models", "GET")
    assert [m["id"] for m in json.loads(listed.body)["data"]] == ["llama", "llama-sql"]
    assert world.ask(None, {}, "/v1/models", "GET").status == 401
    answer = world.ask({**PROMPT, "model": "other"}, bearer("ada"))
    assert (answer.status, answer.code) == (404, "model_not_found")
    assert len(world.servers.requests) == 1


def test_a_platform_without_identities_lets_everybody_in_as_one_team(world):
    world.start(keys=None, anonymous=True, teams={"anonymous": {"models": ["*"]}})
    assert world.ask(PROMPT, {"Authorization": "Bearer unused"}).status == 200
    assert world.servers.requests[-1][0]["x-gateway-inference-fairness-id"] == "anonymous"


def test_a_file_larger_than_a_prompt_passes_with_the_team_of_its_caller(world):
    world.start(batches=True)
    body = json.dumps({"model": "llama", "max_tokens": 1, "prompt": "x" * 9_000_000}).encode()
    form = {"content-type": "multipart/form-data; boundary=b", "x-gki-team": "forged"}
    answer = world.ask(body, {**bearer("ada"), **form}, "/v1/files")
    assert answer.status == 200
    headers, seen = world.servers.requests[-1]
    assert seen == body
    assert headers["x-gki-team"] == "research"
    assert "authorization" not in headers
    assert world.ask(b"x", form, "/v1/files").status == 401
    assert world.ask(None, bearer("ada"), "/v1/files/../load", "GET").status == 404


def with_issuer(world, **changes):
    """Start the gate with the tests' identity provider."""
    issuer = {
        "audiences": [AUDIENCE],
        "claim": "groups",
        "header": "authorization",
        "issuer": ISSUER,
        "jwks_uri": f"{world.servers.url}/jwks",
        "teams": {"ml-assistant": "research"},
        **changes,
    }
    world.start(jwt=[issuer])
    return world.servers.issuer


def asked(world, token, header="authorization"):
    value = f"Bearer {token}" if header == "authorization" else token
    return world.ask(PROMPT, {header: value})


def test_a_certificate_that_the_load_balancer_verified_is_its_team(world):
    spiffe = "spiffe://example.org/lab"
    world.start(certificates={"from": [f"{CLIENT}/32"], "teams": {spiffe: "research"}})
    prefix = "x-client-cert-"
    described = {f"{prefix}present": "true", f"{prefix}chain-verified": "true"}
    own = {**described, f"{prefix}spiffe": f"id={spiffe}"}
    assert world.ask(PROMPT, own).status == 200
    headers, _ = world.servers.requests[-1]
    assert headers["x-gateway-inference-fairness-id"] == "research"
    assert not [name for name in headers if name.startswith(prefix)]
    assert world.records()[-1]["key_id"] == "certificate"
    elsewhere = {"x-forwarded-for": f"{CLIENT}, 10.0.0.7, 10.0.0.1"}
    for other in (described, {**own, f"{prefix}chain-verified": "false"}, {**own, **elsewhere}):
        assert world.ask(PROMPT, other).status == 401


def test_a_token_of_the_issuer_is_its_team_and_stops_at_the_gate(world):
    issuer = with_issuer(world)
    assert asked(world, issuer.token()).status == 200
    headers, _ = world.servers.requests[-1]
    assert headers["x-gateway-inference-fairness-id"] == "research"
    assert "authorization" not in headers
    until(world.records)
    (record,) = world.records()
    assert (record["key_id"], record["subject"]) == ("jwt", "ada")
    assert asked(world, key_of("ada")).status == 200  # keys work beside tokens


def test_a_token_that_does_not_prove_a_client_is_refused(world):
    issuer = with_issuer(world)
    now = int(time.time())
    valid = issuer.token()
    refused = {
        "expired": issuer.token(exp=now - 60),
        "without an expiry": issuer.token(exp=None),
        "not valid yet": issuer.token(nbf=now + 600),
        "wrong audience": issuer.token(aud="billing"),
        "another issuer": issuer.token(iss="https://login.example.org"),
        "another key": Issuer(issuer.key_id).token(),
        "a key that nobody published": Issuer("key-2").token(),
        "changed claims": ".".join([valid.split(".")[0], issuer.token(sub="eve").split(".")[1]])
        + "."
        + valid.split(".")[2],
        "no signature": unsigned(valid),
    }
    found = {name: asked(world, token) for name, token in refused.items()}
    statuses = {name: (answer.status, answer.code) for name, answer in found.items()}
    assert statuses == dict.fromkeys(refused, (401, "invalid_api_key"))
    assert world.servers.requests == []
    assert asked(world, valid).status == 200


def test_a_token_of_a_group_without_a_team_is_refused(world):
    issuer = with_issuer(world)
    assert asked(world, issuer.token(groups=["all-staff"])).status == 401
    assert asked(world, issuer.token(groups="ml-assistant")).status == 200
    assert asked(world, issuer.token(aud=["billing", AUDIENCE])).status == 200


def test_a_new_key_of_the_issuer_counts_without_a_restart(world):
    with_issuer(world)
    reads = world.servers.jwks_reads
    world.servers.issuer = Issuer("key-2")
    assert asked(world, world.servers.issuer.token()).status == 200
    # unknown keys do not flood the issuer, and do not count as guesses, of which 20 are allowed
    assert [asked(world, Issuer("key-3").token()).status for _ in range(25)] == [401] * 25
    assert world.servers.jwks_reads - reads <= 2


def test_the_token_of_identity_aware_proxy_comes_in_its_own_header(world):
    header = "x-goog-iap-jwt-assertion"
    issuer = with_issuer(world, header=header)
    assert asked(world, issuer.token(), header).status == 200
    assert header not in world.servers.requests[-1][0]
    assert asked(world, issuer.token()).status == 401


def test_people_who_sign_in_are_in_their_team_for_their_backend_service_only(world, tmp_path):
    paths, audience = TwinPaths(tmp_path / "twin"), "/projects/1/global/backendServices/2"
    world.servers.issuer = SimpleNamespace(jwks=lambda: sign_in.public_keys(paths))
    people = token_of_people({"audience": audience, "team": "research"})
    with_issuer(world, **people | {"jwks_uri": f"{world.servers.url}/jwks"})

    def status(of: str) -> int:
        headers = sign_in.signed_headers(paths, "ada@example.com", of)
        return asked(world, headers[sign_in.TOKEN], sign_in.TOKEN).status

    assert status(audience) == 200
    assert status(f"{audience}0") == 401
    until(world.records)
    assert [each["team"] for each in world.records()] == ["research"]
