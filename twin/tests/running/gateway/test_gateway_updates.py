"""The gateway while the cluster changes under it: nothing is lost, and changes are quick."""

import http.client
import json
import os
import signal
import ssl
import threading
import time
from collections import Counter

import pytest

from twin.cluster.gateway.envoy.process import EnvoyProcess
from twin.tests.running.gateway.client import ADDRESS, MODELS_READ, PORT, ask, spread
from twin.tests.running.gateway.cluster import BLOCK
from twin.tests.running.gateway.manifests import (
    gateway,
    model_rules,
    picker_check,
    pool_ref,
    route,
)
from twin.world.capacity import GivenCertificate, World

SECOND, THIRD = f"127.32.{BLOCK}.2", f"127.32.{BLOCK}.3"
pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(180)]


def test_a_route_change_takes_effect_and_no_request_is_lost(models, cluster, eventually):
    def canary(weight):
        return route(
            "canary",
            "models",
            [
                {
                    "matches": [{"headers": [{"name": "X-Gateway-Model-Name", "value": "canary"}]}],
                    "backendRefs": [pool_ref("llama", 100 - weight), pool_ref("gemma", weight)],
                }
            ],
        )

    cluster.apply(canary(0))
    answers, stop = [], threading.Event()

    def load():
        while not stop.is_set():
            status, _, body = ask("canary")
            answers.append((status, body.get("served_by")))
            time.sleep(0.01)

    while ask("canary")[0] != 200:
        time.sleep(0.05)
    threads = [threading.Thread(target=load) for _ in range(3)]
    for thread in threads:
        thread.start()

    def by_gemma(last):
        return [by in models["gemma"] for _, by in answers[-last:]]

    try:
        eventually(lambda: len(answers) >= 20)
        assert not any(by_gemma(20))
        cluster.apply(canary(100))
        eventually(lambda: all(by_gemma(20)))
        cluster.apply(canary(50))
        eventually(lambda: 0.2 < sum(by_gemma(60)) / 60 < 0.8)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    cluster.delete("gateway.networking.k8s.io/v1", "HTTPRoute", "canary")
    assert {status for status, _ in answers} == {200}


@pytest.mark.usefixtures("models")
def test_a_changed_listener_drops_no_request_of_clients_that_keep_their_connection(cluster):
    statuses, failures, stop = Counter(), [], threading.Event()

    def load():
        body = json.dumps({"model": "llama-8b", "prompt": "x"})
        connection = http.client.HTTPConnection(ADDRESS, PORT, timeout=30)
        while not stop.is_set():
            try:
                connection.request("POST", "/v1/completions", body)
                response = connection.getresponse()
                response.read()
                statuses[response.status] += 1
            except OSError as error:
                failures.append(repr(error))
                connection.close()
            time.sleep(0.005)
        connection.close()

    threads = [threading.Thread(target=load) for _ in range(2)]
    for thread in threads:
        thread.start()
    extension = gateway("models", ADDRESS, PORT)[1]
    entry = extension["spec"]["extensionChains"][0]["extensions"][0]
    for open_ in (True, False, True, False):
        entry["failOpen"] = open_
        cluster.apply(extension)
        time.sleep(0.7)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert set(statuses) == {200}
    assert statuses[200] > 50


def test_a_new_pod_takes_requests_and_a_deleted_one_none(models, cluster, eventually):
    address = cluster.pod("llama-new", {"model": "llama"})
    eventually(lambda: address in spread(10, "llama-8b"), 15)
    cluster.delete("v1", "Pod", "llama-new")
    eventually(lambda: address not in spread(10, "llama-8b"), 5)
    cluster.engines.end(address)
    assert set(spread(20, "llama-8b")) <= set(models["llama"])


@pytest.mark.usefixtures("models")
def test_a_route_to_a_missing_pool_is_a_500_and_its_status_says_why(cluster, eventually):
    cluster.apply(route("broken", "models", [*model_rules({"broken-model": "nowhere"})]))
    try:
        eventually(lambda: ask("broken-model")[0] == 500)

        def reasons():
            found = cluster.status("gateway.networking.k8s.io/v1", "HTTPRoute", "broken")
            return [c["reason"] for p in found.get("parents", []) for c in p["conditions"]]

        eventually(lambda: "BackendNotFound" in reasons())
    finally:
        cluster.delete("gateway.networking.k8s.io/v1", "HTTPRoute", "broken")


@pytest.mark.usefixtures("models")
def test_a_second_gateway_has_the_same_port_on_its_own_address(cluster, eventually):
    cluster.apply(
        *gateway("second", SECOND, PORT),
        route("second", "second", model_rules({"llama-8b": "llama"})),
    )

    def answered():
        try:
            return ask("llama-8b", address=SECOND)[0] == 200
        except OSError:
            return False

    eventually(answered)
    cluster.delete("gateway.networking.k8s.io/v1", "Gateway", "second")
    eventually(lambda: not (cluster.dir / "gateways" / "default--second").exists())
    assert ask("llama-8b")[0] == 200


def test_filters_change_requests_and_answers_on_their_way(models, cluster, eventually):
    def change(kind, field, **headers):
        pairs = [{"name": k, "value": v} for k, v in headers.items()]
        return {"type": kind, field: {"set": pairs}}

    rewrite = {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}
    mirror = {"backendRef": {k: v for k, v in pool_ref("gemma").items() if k != "weight"}}
    cluster.apply(
        route(
            "filters",
            "models",
            [
                {
                    "matches": [{"path": {"value": "/openai"}}],
                    "filters": [
                        {"type": "URLRewrite", "urlRewrite": rewrite},
                        change("RequestHeaderModifier", "requestHeaderModifier", x_in="1"),
                        change("ResponseHeaderModifier", "responseHeaderModifier", x_out="2"),
                        {"type": "RequestMirror", "requestMirror": mirror},
                    ],
                    "backendRefs": [{"name": "catalogue", "port": 80}],
                },
                {
                    "matches": [{"path": {"value": "/old"}}],
                    "filters": [
                        {
                            "type": "RequestRedirect",
                            "requestRedirect": {"statusCode": 301, "hostname": "new.example.com"},
                        }
                    ],
                },
            ],
        )
    )
    try:
        _, headers, body = eventually(lambda: (a := ask(None, "/openai/v1/x"))[0] == 200 and a)
        assert (body["path"], headers["x_out"]) == ("/v1/x", "2")
        gemma = models["gemma"][0]
        eventually(lambda: (gemma, "/v1/x", "") in cluster.engines.seen)
        assert any(h.get("x_in") == "1" for h in cluster.engines.headers)
        status, headers, _ = ask(None, "/old")
        assert (status, headers["location"]) == (301, f"http://new.example.com:{PORT}/old")
    finally:
        cluster.delete("gateway.networking.k8s.io/v1", "HTTPRoute", "filters")


@pytest.mark.usefixtures("models")
def test_a_managed_certificate_is_one_that_clients_of_the_twin_trust(cluster, eventually):
    secure = gateway("secure", THIRD, 18443)
    options = {"networking.gke.io/cert-manager-certs": "models"}
    secure[0]["spec"]["listeners"][0] |= {
        "protocol": "HTTPS",
        "hostname": "models.example.com",
        "tls": {"mode": "Terminate", "options": options},
    }
    World(certificates=(GivenCertificate(name="models"),)).save(cluster.paths.capacity_file)
    cluster.apply(*secure, route("secure", "secure", model_rules({"llama-8b": "llama"})))
    trusting = ssl.create_default_context(cafile=str(cluster.paths.pki / "ca.crt"))

    def answered(context: ssl.SSLContext, named: str | None) -> bool:
        connection = http.client.HTTPConnection(THIRD, 18443, timeout=10)
        try:
            connection.connect()
            connection.sock = context.wrap_socket(connection.sock, server_hostname=named)
            body = json.dumps({"model": "llama-8b", "prompt": "x"})
            connection.request("POST", "/v1/completions", body, {"Host": "models.example.com"})
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    eventually(lambda: answered(trusting, "models.example.com"))
    probing = ssl.create_default_context(cafile=str(cluster.paths.pki / "ca.crt"))
    probing.check_hostname = False
    assert answered(probing, None), "health checks of Google name no host in TLS"
    assert answered(probing, "other.example.com"), "the Host header chooses the route"
    cluster.delete("gateway.networking.k8s.io/v1", "Gateway", "secure")


@pytest.mark.usefixtures("models")
def test_envoy_outlives_its_controller_and_is_taken_over_by_the_next(cluster, eventually):
    process = EnvoyProcess(cluster.dir / "gateways" / "default--models", cluster.dir / "x.log")
    pid = process.pid()
    cluster.stop_controller()
    assert ask("llama-8b")[0] == 200
    assert process.pid() == pid
    cluster.start_controller()
    cluster.apply(route("later", "models", model_rules({"later": "gemma"})))
    eventually(lambda: ask("later")[0] == 200)
    assert process.pid() == pid
    cluster.delete("gateway.networking.k8s.io/v1", "HTTPRoute", "later")


@pytest.mark.usefixtures("models")
def test_a_killed_envoy_comes_back(cluster, eventually):
    process = EnvoyProcess(cluster.dir / "gateways" / "default--models", cluster.dir / "x.log")
    pid = process.pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)

    def answered():
        try:
            return ask("llama-8b")[0] == 200
        except OSError:
            return False

    eventually(lambda: process.pid() not in {None, pid})
    eventually(answered)


def test_a_dead_picker_ends_requests_or_is_passed_by_as_its_pool_says(models, cluster, eventually):
    cluster.apply(*(picker_check(f"{model}-epp") for model in ("llama", "gemma")))
    cluster.kill("llama-epp")
    cluster.kill("gemma-epp")
    closed = eventually(lambda: (a := ask("llama-8b"))[0] == 500 and a)
    assert closed[2]["error"]["code"] == 500
    passed = eventually(lambda: (a := ask("gemma-27b"))[0] == 200 and a)
    assert passed[2]["served_by"] in models["gemma"]
    for model in ("llama", "gemma"):
        cluster.start_picker(model, reads=MODELS_READ)
    eventually(lambda: ask("llama-8b")[0] == 200, 20)
    for model in ("llama", "gemma"):
        cluster.delete("networking.gke.io/v1", "HealthCheckPolicy", f"{model}-epp")
