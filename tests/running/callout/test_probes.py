"""The load balancer's probes of a gate, as its HealthCheckPolicy sets them."""

import json
import subprocess
import urllib.request

import pytest

from tests.running.callout.world import until
from twin.cluster.gateway.envoy.clusters import clusters_of, endpoints_of
from twin.cluster.gateway.envoy.messages import file_name, response
from twin.cluster.gateway.translation.model import (
    Chain,
    Endpoint,
    GatewayModel,
    HealthCheck,
    Processor,
)
from twin.host.ports import free_port
from twin.toolchain import tool

pytestmark = pytest.mark.needs_tools


def test_the_gate_passes_the_probes_of_its_policy_until_it_is_killed(world, tmp_path):
    world.start()
    (gate,) = world.callouts
    health = HealthCheck("GRPC", port=gate.health, interval_seconds=1, timeout_seconds=1)
    processor = Processor("gate", (Endpoint("127.0.0.1", gate.port),), health=health)
    chain = Chain("gate", (processor,), ())
    model = GatewayModel("ns", "gw", "127.0.0.1", traffic_chains=(chain,))
    for name, endpoints in endpoints_of(model).items():
        (tmp_path / file_name(name)).write_text(json.dumps(response("endpoints", "1", [endpoints])))
    admin = free_port()
    config = {
        "node": {"id": "t", "cluster": "t"},
        "admin": {"address": {"socket_address": {"address": "127.0.0.1", "port_value": admin}}},
        "static_resources": {"clusters": list(clusters_of(model, tmp_path).values())},
    }
    file = tmp_path / "probes.json"
    file.write_text(json.dumps(config))
    envoy = subprocess.Popen(
        [str(tool("envoy")), "-c", str(file), "--disable-hot-restart", "--concurrency", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def flags() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{admin}/clusters", timeout=2) as answer:
                lines = answer.read().decode().splitlines()
        except OSError:
            return ""
        return next((line.rpartition("::")[2] for line in lines if "health_flags" in line), "")

    try:
        until(lambda: flags() == "healthy")
        gate.kill()
        until(lambda: "failed_active_hc" in flags())
    finally:
        envoy.kill()
        envoy.wait(10)
