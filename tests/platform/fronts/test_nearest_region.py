"""Two regions behind Cloud DNS, as docs/examples/nearest-region: health checks, keys and a loss."""

import json
import socket
import ssl
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from infra.reading.load import KEY, PROJECT
from scripts.shared.engine import Engine
from tests.platform.example_checkout import checkout, output_of
from twin.front.dns import answers, probes, resolve
from twin.host.paths import TwinPaths
from twin.tests.eventually import eventually
from twin.world.capacity import GivenCertificate, World
from twin.world.store import list_resources

# twin/tests/running/front/test_front_requests.py has Cloud DNS alone, with two health checks
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(1500)]

STACK = ("--stack", "nearest-region")
HOST, PORT, MODEL = "models.example.com", 443, "qwen3-0.6b"
HOME, AWAY = "us-central1", "europe-west4"
UNHEALTHY_SECONDS = 150.0
"""Two failed checks, 30 s apart in real time, and the rest for a busy machine."""
KEY_TRIES = 15
"""Twenty keys that the gate does not know in a minute would make it answer with 429."""


def write(folder: Path, clients: dict[str, Any] | None) -> None:
    """Leave two regions in the example's file, and set `clients` unless it is None."""
    file, yaml = folder / "stacks" / "Pulumi.nearest-region.yaml", YAML()
    document: Any = yaml.load(file)
    platform = document["config"][f"{PROJECT}:{KEY}"]
    for region in list(platform["regions"]):
        if region not in (HOME, AWAY):
            del platform["regions"][region]
    platform["gateway"]["port"] = PORT
    if clients is not None:
        platform["clients"] = clients
    yaml.dump(document, file)


class Front:
    """The host name, as clients in a region use it."""

    def __init__(self, paths: TwinPaths) -> None:
        self.paths = paths
        outputs = Engine(paths).outputs_of("nearest-region")
        self.addresses: dict[str, str] = outputs["addresses"]

    def leads(self, client: str) -> list[str]:
        """Return the regions whose addresses a client of a region gets."""
        found = resolve(self.paths, HOST, client)
        return [region for region, address in self.addresses.items() if address in found]

    def unhealthy(self) -> list[str]:
        """Return the addresses whose health check fails now, as Google sends it."""
        known = list(probes(list_resources(self.paths)))
        assert {each.address for each in known} == set(self.addresses.values())
        assert {each.path for each in known} == {"/healthz"}
        return [each.address for each in known if not answers(each)]

    def ask(self, client: str, key: str = "") -> int:
        """Return the status of a prompt from a region."""
        (address,) = resolve(self.paths, HOST, client)
        trusted = ssl.create_default_context(cafile=str(self.paths.ca_bundle))
        connection = HTTPConnection(HOST, PORT, timeout=20)
        plain = socket.create_connection((address, PORT), timeout=20)
        connection.sock = trusted.wrap_socket(plain, server_hostname=HOST)
        body = json.dumps({"model": MODEL, "prompt": "Which region?", "max_tokens": 4})
        sent = {"Content-Type": "application/json"}
        if key:
            sent["Authorization"] = f"Bearer {key}"
        try:
            connection.request("POST", "/v1/completions", body, sent)
            return connection.getresponse().status
        finally:
            connection.close()


def until_known(front: Front, client: str, key: str) -> None:
    """Wait until the gate of a region knows a key."""
    for _ in range(KEY_TRIES):
        if front.ask(client, key) == 200:
            return
        time.sleep(3)
    raise AssertionError(f"the gate near {client} does not know the key")


def test_health_checks_need_no_key_and_clients_of_a_lost_region_get_the_next(tmp_path, paths):
    folder = checkout(tmp_path / "checkout", "nearest-region")
    World(
        certificates=(GivenCertificate(name="models-example-com", hostname=HOST),),
        zones=("example-com",),
    ).save(paths.capacity_file)
    with_keys = {
        "teams": {"search": {"requests_per_minute": 600, "tokens_per_month": 700_000_000,
                             "monthly_shares": {HOME: 0.6, AWAY: 0.4}}}
    }  # fmt: skip
    write(folder, {"anonymous": "the twin listens on this machine alone"})
    assert f"Models   {MODEL}" in output_of(folder, paths, "up", *STACK)
    front = Front(paths)
    assert front.unhealthy() == []
    assert (front.leads(HOME), front.leads(AWAY)) == ([HOME], [AWAY])
    eventually(lambda: {front.ask(HOME), front.ask(AWAY)} == {200}, 120)

    write(folder, with_keys)
    assert f"Models   {MODEL}" in output_of(folder, paths, "up", *STACK)
    assert front.unhealthy() == [], "the checks have no key"
    assert {front.ask(HOME), front.ask(AWAY)} == {401}
    key = output_of(folder, paths, "clients", "keys", "create", "search", *STACK).strip()
    until_known(front, HOME, key)
    until_known(front, AWAY, key)

    known = World.load(paths.capacity_file)
    known.model_copy(update={"outages": (f"{AWAY}-*",)}).save(paths.capacity_file)
    eventually(lambda: front.leads(AWAY) == [HOME], UNHEALTHY_SECONDS)
    assert front.ask(AWAY, key) == 200
    known.save(paths.capacity_file)
    eventually(lambda: front.leads(AWAY) == [AWAY], UNHEALTHY_SECONDS)
    assert "Nothing is left in the cloud." in output_of(folder, paths, "down")
