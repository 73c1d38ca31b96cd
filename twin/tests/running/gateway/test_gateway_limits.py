"""Requests that end early: timeouts, clients that disconnect, missing replicas."""

import http.client
import json
from contextlib import closing

import pytest

from twin.tests.running.gateway.client import ADDRESS, PORT, ask
from twin.tests.running.gateway.manifests import (
    health_check,
    model_rules,
    pool,
    pool_ref,
    route,
    time_limit,
)
from twin.wire.kube import KubeError

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(180)]
ROUTE = ("gateway.networking.k8s.io/v1", "HTTPRoute")


def stream(name, **fields):
    """Ask for a stream and return (connection, response)."""
    connection = http.client.HTTPConnection(ADDRESS, PORT, timeout=30)
    body = {"model": "gemma-27b", "prompt": "x", "stream": True, **fields}
    connection.request("POST", "/v1/completions", json.dumps(body), {"x-name": name})
    return connection, connection.getresponse()


def test_a_stream_that_outlives_its_time_out_is_cut_and_its_engine_told(
    models, cluster, eventually
):
    cluster.apply(time_limit("gemma", 2))
    try:

        def cut():
            connection, response = stream("outlives", max_tokens=40, gap=0.2)
            try:
                whole = response.read()
            except http.client.IncompleteRead as error:
                return error.partial
            finally:
                connection.close()
            assert b"[DONE]" in whole
            return None

        got = eventually(cut, 30)
        assert b'"n": 0' in got
        assert b"[DONE]" not in got
        eventually(lambda: "outlives" in cluster.engines.aborted)
        assert cluster.engines.generated["outlives"] < 40
    finally:
        cluster.delete("networking.gke.io/v1", "GCPBackendPolicy", "gemma")
        cluster.engines.delay_seconds[models["gemma"][0]] = 2.5
        eventually(lambda: ask("gemma-27b")[0] == 200, 60)  # the limit is gone for other tests
        cluster.engines.delay_seconds.clear()


@pytest.mark.usefixtures("models")
def test_the_first_piece_arrives_before_the_last_is_generated(cluster):
    connection, response = stream("unbuffered", max_tokens=30, gap=0.2)
    with closing(connection):
        first = response.readline()
        made = cluster.engines.generated["unbuffered"]
        rest = response.read()
    assert first.startswith(b"data: ")
    assert made < 30
    assert b"[DONE]" in rest
    assert cluster.engines.generated["unbuffered"] == 30


@pytest.mark.usefixtures("models")
def test_a_client_that_leaves_a_stream_ends_the_request_in_the_engine(cluster, eventually):
    connection, response = stream("left", max_tokens=600, gap=0.05)
    response.readline()
    assert response.fp is not None
    response.close()
    connection.close()
    eventually(lambda: "left" in cluster.engines.aborted)
    assert cluster.engines.generated["left"] < 600


def test_a_client_that_does_not_wait_for_its_answer_ends_the_request_too(
    models, cluster, eventually
):
    cluster.engines.delay_seconds[models["gemma"][0]] = 20.0
    try:
        connection = http.client.HTTPConnection(ADDRESS, PORT, timeout=30)
        body = json.dumps({"model": "gemma-27b", "prompt": "x"})
        connection.request("POST", "/v1/completions", body, {"x-name": "impatient"})

        def arrived():
            return any(h.get("x-name") == "impatient" for h in cluster.engines.headers)

        eventually(arrived)
        connection.close()
        eventually(lambda: "impatient" in cluster.engines.aborted)
    finally:
        cluster.engines.delay_seconds.clear()


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("failure_mode", ["FailClose", "FailOpen"])
def test_a_model_without_a_ready_replica_is_a_503(cluster, eventually, failure_mode):
    name = f"empty-{failure_mode.lower()}"
    cluster.apply(pool(name, f"{name}-epp", failure_mode), health_check(name))
    cluster.start_picker(name)
    cluster.apply(route(name, "models", model_rules({name: name})))
    try:
        status, headers, body = eventually(lambda: (a := ask(name))[0] not in {404, 500} and a, 60)
        assert status == 503
        assert headers["content-type"] == "application/json"
        assert body["error"]["type"] == "ServiceUnavailableError"
        assert body["error"]["code"] == 503
    finally:
        cluster.delete(*ROUTE, name)
        cluster.kill(f"{name}-epp")


def test_a_failed_post_is_not_tried_again_and_its_answer_is_the_engines(models, cluster):
    gemma = models["gemma"][0]
    cluster.engines.status[gemma] = 503
    before = len(cluster.engines.seen)
    try:
        status, _, body = ask("gemma-27b")
        assert (status, body) == (503, {"served_by": gemma})
        asked = [seen for seen in cluster.engines.seen[before:] if seen[0] == gemma]
        assert len(asked) == 1
    finally:
        cluster.engines.status.clear()


def test_a_failed_get_is_tried_once_more(models, cluster):
    catalogue = models["catalogue"][0]
    cluster.engines.status[catalogue] = 503
    before = len(cluster.engines.seen)
    try:
        assert ask(None, "/v1/models")[0] == 503
        asked = [seen for seen in cluster.engines.seen[before:] if seen[0] == catalogue]
        assert len(asked) == 2
    finally:
        cluster.engines.status.clear()


@pytest.mark.usefixtures("models")
def test_retries_of_a_route_are_refused_because_gke_has_no_such_field(cluster):
    rule = {"backendRefs": [pool_ref("llama")], "retry": {"attempts": 3, "codes": [503]}}
    with pytest.raises(KubeError, match="retry"):
        cluster.apply(route("retried", "models", [rule]))


@pytest.mark.usefixtures("models")
def test_time_outs_of_a_route_are_not_accepted(cluster, eventually):
    rule = {"backendRefs": [pool_ref("llama")], "timeouts": {"request": "5s"}}
    cluster.apply(route("timed", "models", [{**rule, "matches": [{"path": {"value": "/timed"}}]}]))
    try:

        def reasons():
            found = cluster.status(*ROUTE, "timed")
            return [
                c["reason"]
                for parent in found.get("parents", [])
                for c in parent["conditions"]
                if c["type"] == "Accepted"
            ]

        eventually(lambda: reasons() == ["UnsupportedValue"])
        assert ask(None, "/timed")[0] == 404
    finally:
        cluster.delete(*ROUTE, "timed")


@pytest.mark.usefixtures("models")
def test_a_header_of_the_client_chooses_among_rules_of_one_model(models, cluster, eventually):
    name = {"name": "X-Gateway-Model-Name", "value": "chosen"}
    tier = {"name": "x-tier", "value": "gold"}
    cluster.apply(
        route(
            "chosen",
            "models",
            [
                {"matches": [{"headers": [name]}], "backendRefs": [pool_ref("llama")]},
                {"matches": [{"headers": [name, tier]}], "backendRefs": [pool_ref("gemma")]},
            ],
        )
    )
    try:
        eventually(lambda: ask("chosen")[0] == 200)
        for _ in range(5):
            assert ask("chosen")[2]["served_by"] in models["llama"]
            gold = ask("chosen", headers={"x-tier": "gold"})
            assert gold[2]["served_by"] in models["gemma"]
    finally:
        cluster.delete(*ROUTE, "chosen")


def test_half_of_the_requests_are_mirrored_where_a_route_says_so(models, cluster, eventually):
    mirror = {k: v for k, v in pool_ref("gemma").items() if k != "weight"}
    rule = {
        "matches": [{"headers": [{"name": "X-Gateway-Model-Name", "value": "mirrored"}]}],
        "filters": [
            {"type": "RequestMirror", "requestMirror": {"backendRef": mirror, "percent": 50}}
        ],
        "backendRefs": [pool_ref("llama")],
    }
    cluster.apply(route("mirrored", "models", [rule]))
    try:
        eventually(lambda: ask("mirrored")[0] == 200)
        before = len(cluster.engines.seen)
        count = 200
        for _ in range(count):
            assert ask("mirrored")[2]["served_by"] in models["llama"]

        def copies():
            return [s for s in cluster.engines.seen[before:] if s[0] in models["gemma"]]

        eventually(lambda: len(copies()) > 65)  # nobody waits for a copy
        assert len(copies()) < 135  # both are five standard deviations away
        assert {model for _, _, model in copies()} == {"mirrored"}
    finally:
        cluster.delete(*ROUTE, "mirrored")
