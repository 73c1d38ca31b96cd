"""As many models behind one gateway as fit into a URL map."""

import http.client
import time
from pathlib import Path
from statistics import quantiles
from typing import Any

import pytest

from gke_inference.catalogue.url_maps import MAX_URL_MAP_BYTES, url_map_bytes
from twin.cluster.gateway.envoy.process import EnvoyProcess
from twin.tests.eventually import eventually
from twin.tests.running.gateway.client import PORT, ask
from twin.tests.running.gateway.cluster import BLOCK, Cluster
from twin.tests.running.gateway.manifests import (
    gateway,
    health_check,
    model_rules,
    pool,
    route,
    service,
)

# the short form is test_gateway_updates.py, with a few routes
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(1500)]

ADDRESS, SERVER = f"127.32.{BLOCK}.9", f"127.48.{BLOCK}.250"
MODELS = 1250
"""What fits into a URL map with the routes of the platform, whose filters are longer, is 1,298."""
CHANGES = 100
OBSERVED_WITHIN_SECONDS = 30.0
PROBE_SECONDS = 15


def of_model(number: int) -> list[dict[str, Any]]:
    """Return the objects of a model; its pod answers on the server that all models share."""
    name = f"wide-{number:04}"
    check = health_check(name)
    check["spec"]["default"] |= {"checkIntervalSec": PROBE_SECONDS}
    return [
        pool(name, f"{name}-epp", "FailOpen"),
        service(f"{name}-epp", {"app": f"{name}-epp"}, 9002),
        check,
        route(name, "wide", model_rules({name: name})),
    ]


def redirect(number: int) -> dict[str, Any]:
    to = {"type": "RequestRedirect", "requestRedirect": {"hostname": f"h{number}.example.com"}}
    matches = [{"path": {"type": "Exact", "value": "/changed"}}]
    return route("wide-changed", "wide", [{"matches": matches, "filters": [to]}])


def resident_mib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (kib,) = (line.split()[1] for line in lines if line.startswith("VmRSS:"))
    return int(kib) // 1024


def test_a_thousand_models_answer_and_each_change_of_a_route_takes_effect(
    cluster: Cluster, record_property: Any
) -> None:
    cluster.engines.serve(SERVER)
    cluster.apply(*gateway("wide", ADDRESS, PORT))
    routes: list[dict[str, Any]] = []
    for number in range(MODELS):
        objects = of_model(number)
        cluster.apply(*objects)
        cluster.pod(f"wide-{number:04}", {"model": f"wide-{number:04}"}, SERVER)
        routes.append(objects[-1])
    assert url_map_bytes(routes) < MAX_URL_MAP_BYTES
    for number in (0, MODELS // 2, MODELS - 1):
        name = f"wide-{number:04}"
        eventually(lambda name=name: ask(name, address=ADDRESS)[0] == 200, 300)
    process = EnvoyProcess(cluster.dir / "gateways" / "default--wide", cluster.dir / "x.log")
    pid = process.pid()
    assert pid is not None
    cluster.apply(redirect(CHANGES))  # until then, Envoy works on the last models
    eventually(lambda: ask(None, "/changed", address=ADDRESS)[0] == 302, 300)
    taken: list[float] = []
    connection = http.client.HTTPConnection(ADDRESS, PORT, timeout=30)
    for number in range(CHANGES):
        begun = time.monotonic()
        cluster.apply(redirect(number))
        while True:
            connection.request("GET", "/changed")
            answer = connection.getresponse()
            answer.read()
            if f"h{number}.example" in (answer.headers["location"] or ""):
                break
            assert time.monotonic() - begun < OBSERVED_WITHIN_SECONDS
            time.sleep(0.002)
        taken.append(time.monotonic() - begun)
    connection.close()
    cuts = quantiles(taken, n=100, method="inclusive")
    record_property(
        "figures",
        f"{MODELS:,} models: a changed route takes effect after {1000 * cuts[49]:.0f} ms at p50 and"
        f" {1000 * cuts[98]:.0f} ms at p99; Envoy has {resident_mib(pid)} MiB",
    )
