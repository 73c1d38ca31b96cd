"""Ports, probes, hooks, images and the catalogue's web server."""

import asyncio
import re
import socket
import time
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from gke_inference.catalogue.versions import images, lock
from twin.cluster.agent import lifecycle, probes
from twin.cluster.agent.images import Images
from twin.cluster.agent.launching.static_server import ConfigurationError, application, read_site
from twin.cluster.base import podports
from twin.host.ports import free_port
from twin.wire import rpc
from twin.world.rules import Rules

POD = {"metadata": {"namespace": "n", "name": "p"}, "status": {"podIP": "127.64.0.7"}}
SITE = """
server {
    listen 8081;
    default_type application/json;
    location = /healthz {
        if ($request_method !~ ^(GET|HEAD)$) { return 405 '{"code": 405}'; }
        return 200 "ok";
    }
    location = /v1/models { alias /srv/catalogue/models.json; }
    location / { return 404; }
}
"""


def test_a_moved_port_is_found_and_others_are_the_pods_own(tmp_path: Path):
    podports.write(tmp_path, "n", "p", {9002: ("127.0.0.1", 41234)})
    assert podports.resolve(tmp_path, POD, 9002) == ("127.0.0.1", 41234)
    assert podports.resolve(tmp_path, POD, 8000) == ("127.64.0.7", 8000)
    podports.remove(tmp_path, "n", "p")
    assert podports.resolve(tmp_path, POD, 9002) == ("127.64.0.7", 9002)


def test_a_pod_without_an_address_has_no_ports(tmp_path: Path):
    pod = {"metadata": {"namespace": "n", "name": "p"}}
    with pytest.raises(LookupError, match="n/p has no address yet"):
        podports.resolve(tmp_path, pod, 80)


def test_a_tcp_probe_passes_where_something_listens():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        spec = {"tcpSocket": {"port": port}}
        assert probes.check(spec, lambda p: ("127.0.0.1", int(p)), 1) is None
    message = probes.check(spec, lambda p: ("127.0.0.1", int(p)), 1)
    assert message is not None
    assert message.startswith("dial tcp")


def health_server(answers: dict[bytes, bytes]) -> tuple[Any, int]:
    grpc = rpc.grpc_module
    server = grpc.server(futures.ThreadPoolExecutor(2))
    handler = grpc.unary_unary_rpc_method_handler(lambda request, _: answers[request])
    service = grpc.method_handlers_generic_handler("grpc.health.v1.Health", {"Check": handler})
    server.add_generic_rpc_handlers((service,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port


@pytest.mark.parametrize(
    ("service", "request_bytes", "answer", "passes"),
    [
        (None, b"", b"\x08\x01", True),
        ("readiness", b"\x0a\x09readiness", b"\x08\x01", True),
        ("readiness", b"\x0a\x09readiness", b"\x08\x02", False),
        (None, b"", b"", False),
    ],
)
def test_a_grpc_probe_asks_the_health_service(
    service: str | None, request_bytes: bytes, answer: bytes, passes: bool
):
    server, port = health_server({request_bytes: answer})
    try:
        spec = {"grpc": {"port": port, "service": service}}
        message = probes.check(spec, lambda p: ("127.0.0.1", int(p)), 5)
        assert (message is None) is passes
    finally:
        server.stop(None).wait()


def test_a_grpc_probe_of_nothing_fails():
    spec = {"grpc": {"port": free_port()}}
    assert "failed" in str(probes.check(spec, lambda p: ("127.0.0.1", int(p)), 1))


def test_probe_thresholds_count_in_a_row():
    port = free_port()
    probe = {"tcpSocket": {"port": port}, "failureThreshold": 2, "successThreshold": 2}
    schedule = probes.Schedule(probe, period_cap=0, timeout_floor=1, delay_scale=1)

    def target(number: int | str) -> tuple[str, int]:
        return "127.0.0.1", int(number)

    assert [schedule.run(target), schedule.run(target)] == [None, False]
    with socket.create_server(("127.0.0.1", port)):
        assert [schedule.run(target), schedule.run(target)] == [None, True]
    assert schedule.run(target) is None


def test_periods_are_capped_and_delays_scaled(monkeypatch: pytest.MonkeyPatch):
    probe = {"periodSeconds": 10, "initialDelaySeconds": 60}
    schedule = probes.Schedule(probe, period_cap=1, timeout_floor=1, delay_scale=100)
    schedule.reset(50.0)
    assert (schedule.period, schedule.due) == (1, 50.6)
    answers = iter([None, "no", None])
    monkeypatch.setattr(probes, "check", lambda *_: next(answers))
    periods: list[float] = []
    for _ in range(3):
        schedule.due = 0.0
        schedule.run(lambda _: ("127.0.0.1", 1))
        periods.append(schedule.period)
    assert periods == [2, 1, 2], "longer while it passes"


@pytest.mark.parametrize(
    ("command", "seconds"),
    [
        (["sleep", "30"], 30.0),
        (["/bin/sleep", "5s"], 5.0),
        (["sh", "-c", "sleep 2.5"], 2.5),
        (["/bin/sh", "-c", "sleep 2; echo"], None),
        (["curl", "localhost"], None),
    ],
)
def test_sleeping_hooks_are_recognised(command: list[str], seconds: float | None):
    assert lifecycle.seconds_slept(command) == seconds


def test_a_python_hook_runs_for_real_with_short_sleeps_and_the_pods_address(tmp_path: Path):
    program = (
        "import time, pathlib; time.sleep(30); "
        f"pathlib.Path({str(tmp_path / 'out')!r}).write_text('http://localhost:8000')"
    )
    hook = {"exec": {"command": ["python3", "-c", program]}}
    begun = time.monotonic()
    lifecycle.pre_stop(hook, "127.64.0.7", 1000, 20, lambda p: ("127.0.0.1", int(p)))
    assert time.monotonic() - begun < 10
    assert (tmp_path / "out").read_text() == "http://127.64.0.7:8000"


def test_a_hook_that_hangs_ends_with_the_grace_period():
    hook = {"exec": {"command": ["python3", "-c", "import threading; threading.Event().wait()"]}}
    begun = time.monotonic()
    lifecycle.pre_stop(hook, "127.0.0.1", 1, 0.5, lambda p: ("127.0.0.1", int(p)))
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("labels", "seconds"),
    [
        ({}, 69.0),
        ({"cloud.google.com/gke-image-streaming": "true"}, 1.8),
        (
            {
                "cloud.google.com.node-restriction.kubernetes.io/gke-secondary-boot-disk-x": "y",
            },
            1.0,
        ),
    ],
)
def test_how_long_an_image_takes_depends_on_the_node(labels: dict[str, str], seconds: float):
    images = Images(Rules())
    node = {"metadata": {"uid": "1", "labels": labels}}
    assert images.pull_seconds("vllm/vllm-openai:1", node) == seconds
    images.keep("vllm/vllm-openai:1", node)
    assert images.pull_seconds("vllm/vllm-openai:1", node) == 0


@pytest.mark.parametrize(
    "image",
    [
        *sorted({images()[entry["image"]].reference for entry in lock()["engines"].values()}),
        "europe-west4-docker.pkg.dev/acme/gke-inference/sglang-gpu:0.5.21",
        "europe-west4-docker.pkg.dev/acme/own/pytorch-vllm-serve:1",
    ],
)
def test_every_image_with_an_engine_is_large(image: str):
    node = {"metadata": {"uid": "1", "labels": {}}}
    assert Images(Rules()).pull_seconds(image, node) == 69.0


def test_the_catalogue_serves_what_its_nginx_configuration_says(tmp_path: Path):
    (tmp_path / "models.json").write_text('{"object": "list"}')
    site = read_site(SITE)
    assert site.port == 8081

    async def ask() -> list[tuple[int, str]]:
        app = application(site, {"/srv/catalogue": str(tmp_path)})
        async with TestClient(TestServer(app)) as client:
            answers = [await client.get(path) for path in ("/healthz", "/v1/models", "/other")]
            assert answers[1].content_type == "application/json"
            answers += [await client.post(path) for path in ("/healthz", "/v1/models")]
            return [(answer.status, await answer.text()) for answer in answers]

    read = [(200, "ok"), (200, '{"object": "list"}'), (404, "")]
    assert asyncio.run(ask()) == [*read, (405, '{"code": 405}'), (405, "")]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("alias", "aliases", 'unknown directive "aliases"'),
        (
            "listen 8081;",
            "listen 8081",
            "line 3: the twin does not serve 'listen 8081 default_type application/json'",
        ),
        ("default_type application/json;", "", None),
        (
            "listen 8081;",
            "return 200 ok; server { listen 1; }",
            '"server" directive is not allowed here',
        ),
        ("listen 8081;", "gzip on;", "line 3: the twin does not serve 'gzip on'"),
        ('return 200 "ok"', "return 200 $uri", "line 7: the twin does not serve 'return 200 $uri'"),
        ('return 200 "ok"', "return 301 http://a", "does not serve 'return 301 http://a'"),
        ('return 200 "ok"', "return http://a", "does not serve 'return http://a'"),
        ("8081", "unix:/a", "does not serve 'listen unix:/a'"),
        ("^(GET|HEAD)$", "(GET", "line 6: "),
        ("return 405 '{\"code\": 405}';", "", "does not serve 'if $request_method"),
        ("= /healthz", "~ /healthz", "the twin does not serve 'location ~ /healthz'"),
    ],
)
def test_a_configuration_that_nginx_or_the_twin_does_not_serve_ends_the_catalogue(
    old: str, new: str, message: str | None
):
    text = SITE.replace(old, new)
    if message is None:
        assert read_site(text).content_type == "text/plain"
        return
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        read_site(text)
