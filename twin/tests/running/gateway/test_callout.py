"""The platform's callout on the twin: the gateway calls it, it reads keys and counts in Valkey."""

import base64
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from twin.host import processes
from twin.host.paths import TwinPaths
from twin.host.ports import free_ports
from twin.providers.gcp.effects import secret_manager
from twin.providers.gcp.effects.secret_store import SECRET
from twin.providers.gcp.effects.valkey import ValkeyEffect
from twin.providers.gcp.resources.memorystore import INSTANCE
from twin.providers.gcp.server import world_of
from twin.tests.eventually import eventually
from twin.tests.running.gateway.house import (
    BLOCK,
    ENGINES,
    House,
    ask,
    called,
    chain,
    pick,
    traffic,
)
from twin.tests.running.gateway.processors import refuse
from twin.tests.tools import needed
from twin.tests.unit.gateway.builders import pod, service
from twin.toolchain import tool
from twin.world.store import new_record

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(120)]
KEYS = "projects/acme/secrets/keys"
MEMBER = "gcp:secretmanager/secretIamMember:SecretIamMember"
_PARTS = ("Headers", "Body", "Trailers")
ALL = [f"{side}{part}" for side in ("Request", "Response") for part in _PARTS]
DUPLEX = {"requestBodySendMode": "FullDuplexStreamed", "responseBodySendMode": "FullDuplexStreamed"}


def key_of(name: str) -> str:
    return f"gki_{name:a<8}_{base64.urlsafe_b64encode(name.encode() * 32)[:43].decode()}"


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key_of(name)}"}


def _has_keys(address: str, metrics: int) -> bool:
    """Return whether a callout has read its keys: until then a probe keeps requests from it."""
    page = requests.get(f"http://{address}:{metrics}/metrics", timeout=5).text
    line = next(each for each in page.splitlines() if each.startswith("callout_key_document_age"))
    return float(line.split()[1]) >= 0


class Callouts:
    """Two replicas of the callout behind one Service, with the twin's Secret Manager and Valkey."""

    def __init__(self, folder: Path, **team: Any) -> None:
        paths = TwinPaths(folder / "twin")
        paths.create()
        self._world = world_of(paths)
        self._processes: list[subprocess.Popen[bytes]] = []
        role = {"secretId": KEYS, "role": "roles/secretmanager.secretAccessor"}
        store = self._world.store
        store.add(new_record(SECRET, KEYS, "keys", "acme", "urn", {}, {}), [])
        store.add(new_record(MEMBER, "m", "m", "acme", "urn", role, {}), [])
        self.endpoint = secret_manager.url(paths)
        config = {
            "region": "us-east5",
            "replicas": 2,
            "teams": {"research": {"models": ["m"], **team}},
            "prices": {},
            "keys": {"secret": KEYS},
            "store": {"address": self._valkey()},
        }
        file = folder / "config.yaml"
        file.write_text(json.dumps(config))
        self.set_keys("ada")
        self.addresses = [f"127.49.{BLOCK}.{last}" for last in (11, 12)]
        for address in self.addresses:
            self._start(folder, file, address)

    def _valkey(self) -> str:
        network = {"network": "projects/acme/global/networks/vpc", "projectId": "acme"}
        wanted = {"mode": "CLUSTER_DISABLED", "desiredAutoCreatedEndpoints": [network]}
        name = "projects/acme/locations/us-east5/instances/limits"
        record = new_record(INSTANCE, name, "limits", "acme", "urn", wanted, wanted)
        (endpoint,) = ValkeyEffect().create(self._world, record)["endpoints"]
        found = endpoint["connections"][0]["pscAutoConnection"]
        return f"{found['ipAddress']}:{found['port']}"

    def _start(self, folder: Path, config: Path, address: str) -> None:
        health, metrics = free_ports(2)
        argv = [str(tool("callout")), f"--config={config}", f"--address={address}"]
        argv += [f"--health-port={health}", f"--metrics-port={metrics}"]
        environment = {**os.environ, "SECRET_MANAGER_ENDPOINT": self.endpoint}
        with (folder / f"callout-{address}.log").open("wb") as log:
            self._processes.append(subprocess.Popen(argv, stdout=log, stderr=log, env=environment))

    def set_keys(self, *names: str) -> None:
        """Add a version of the secret with the keys of a team, as an operator does."""
        entries = [
            {
                "id": f"{name:a<8}",
                "team": "research",
                "sha256": hashlib.sha256(key_of(name).encode()).hexdigest(),
                "created": "2026-11-22T00:00:00Z",
            }
            for name in names
        ]
        data = base64.b64encode(json.dumps({"keys": entries}).encode()).decode()
        url = f"{self.endpoint}/v1/{KEYS}:addVersion"
        assert requests.post(url, json={"payload": {"data": data}}, timeout=10).status_code == 200

    def objects(self) -> list[dict[str, Any]]:
        """Return the Service and its pods."""
        pods = [pod(f"callout-{a}", a, {"app": "callout"}) for a in self.addresses]
        return [service("callout", 9010), *pods]

    def stop(self) -> None:
        """End everything."""
        for each in self._processes:
            each.kill()
            each.wait(10)
        processes.stop(self._world.paths, *processes.running(self._world.paths))


@pytest.fixture(name="house", scope="module")
def a_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    needed("callout", "valkey", "envoy")
    found = House(tmp_path_factory.mktemp("gateway"))
    yield found
    found.close()


@pytest.fixture(name="callouts")
def some_callouts(house: House, tmp_path: Path) -> Iterator[Callouts]:
    """Two callouts with a limit of three requests a minute, in front of the engines."""
    found = Callouts(tmp_path, requests_per_minute=3)
    try:
        extension = called("callout", supportedEvents=ALL, timeout="1s", **DUPLEX)
        house.program(traffic(chain("all", extension)), *found.objects())
        yield found
    finally:
        found.stop()


def test_the_gateway_lets_in_who_has_a_key_that_an_operator_added(house, callouts):
    refused = ask()
    assert refused.status == 401
    assert json.loads(refused.text)["error"]["message"]
    assert house.engines.seen == []
    assert ask(headers=bearer("ada")).status == 200
    assert house.engines.seen[-1][0] == ENGINES["m"]
    assert "authorization" not in house.engines.headers[-1]
    assert house.engines.headers[-1]["x-gateway-inference-fairness-id"] == "research"
    assert ask("n", headers=bearer("ada")).status == 404  # a model of other teams
    callouts.set_keys("bob")
    eventually(lambda: ask(headers=bearer("ada")).status == 401, 15)


def test_replicas_count_the_requests_of_a_team_together(house, callouts):
    del callouts
    statuses = [ask(headers=bearer("ada")).status for _ in range(6)]
    assert statuses == [200, 200, 200, 429, 429, 429]
    limited = ask(headers=bearer("ada"))
    assert int(limited.headers["retry-after"]) >= 1
    assert json.loads(limited.text)["error"]["message"]
    assert len(house.engines.seen) == 3


def test_a_request_for_which_no_replica_gets_room_is_a_rate_limit_to_its_client(house, callouts):
    del callouts
    # what the picker sends: test_gateway_fairness.py has the real one
    waited = "inference error: ServiceUnavailable - request timed out in queue: TTL expired"
    house.picker.answers = lambda *_: [refuse(503, waited)]
    limited = ask(headers=bearer("ada"))
    assert limited.status == 429
    assert limited.headers["retry-after"] == "1"
    assert json.loads(limited.text)["error"]["code"] == "model_overloaded"
    none = "inference error: ServiceUnavailable - failed to find candidate endpoints"
    house.picker.answers = lambda *_: [refuse(503, none)]
    away = ask(headers=bearer("ada"))
    assert (away.status, json.loads(away.text)["error"]["type"]) == (503, "server_error")
    house.picker.answers = pick("m")
    assert ask(headers=bearer("ada")).status == 200


def test_a_long_prompt_and_a_long_stream_pass_the_callout(house, callouts):
    del callouts
    found = ask(headers=bearer("ada"), prompt="x" * 900_000, stream=True, max_tokens=20, gap=0.01)
    assert found.status == 200
    assert found.text.count('"served_by"') == 20
