"""Two regions behind one address that reads the model, as docs/examples/front-router: a loss."""

import json
import socket
import ssl
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from infra.reading.load import KEY, PROJECT
from scripts.shared.engine import Engine
from tests.platform.example_checkout import checkout, output_of
from twin.host.paths import TwinPaths
from twin.tests.eventually import eventually
from twin.world.capacity import GivenCertificate, World
from twin.world.nearness import CLIENT_REGION

# twin/tests/running/front/test_front_requests.py has the same program before plain gateways
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(1500)]

STACK = ("--stack", "front-router")
HOST, PORT = "models.example.com", 8443
HOME, AWAY = "us-central1", "europe-west4"
EVERYWHERE, EUROPEAN, ELSEWHERE = "qwen3-0.6b", "qwen3-1.7b", "gemini-flash"


def let_anyone_in(folder: Path) -> None:
    """Leave out the teams of the example, which need keys."""
    file, yaml = folder / "stacks" / "Pulumi.front-router.yaml", YAML()
    document: Any = yaml.load(file)
    platform = document["config"][f"{PROJECT}:{KEY}"]
    platform["clients"] = {"anonymous": "the twin listens on this machine alone"}
    yaml.dump(document, file)


def ask(paths: TwinPaths, address: str, model: str, client: str = HOME) -> tuple[int, str]:
    """Return the status of a prompt at the base URL, and the model of its answer."""
    trusted = ssl.create_default_context(cafile=str(paths.ca_bundle))
    connection = HTTPConnection(HOST, PORT, timeout=20)
    plain = socket.create_connection((address, PORT), timeout=20)
    connection.sock = trusted.wrap_socket(plain, server_hostname=HOST)
    said = [{"role": "user", "content": "Which region?"}]
    body = json.dumps({"model": model, "messages": said, "max_tokens": 4})
    try:
        headers = {"Content-Type": "application/json", CLIENT_REGION: client}
        connection.request("POST", "/v1/chat/completions", body, headers)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text)["model"] if answer.status == 200 else ""
    finally:
        connection.close()


def test_one_address_answers_for_every_model_also_while_the_region_of_one_is_lost(tmp_path, paths):
    folder = checkout(tmp_path / "checkout", "front-router")
    World(certificates=(GivenCertificate(name="models-example-com", hostname=HOST),)).save(
        paths.capacity_file
    )
    let_anyone_in(folder)
    assert EUROPEAN in output_of(folder, paths, "up", *STACK)
    address = Engine(paths).outputs_of("front-router")["front"]
    for model in (EVERYWHERE, EUROPEAN):
        eventually(lambda model=model: ask(paths, address, model) == (200, model), 120)
    eventually(lambda: ask(paths, address, ELSEWHERE)[0] == 200, 120)
    assert ask(paths, address, "unknown")[0] == 404

    known = World.load(paths.capacity_file)
    known.model_copy(update={"outages": (f"{AWAY}-*",)}).save(paths.capacity_file)
    eventually(lambda: ask(paths, address, EUROPEAN) == (200, "google/gemini-2.5-flash"), 60)
    for client in (HOME, AWAY):
        assert ask(paths, address, EVERYWHERE, client) == (200, EVERYWHERE)
        assert ask(paths, address, ELSEWHERE, client)[0] == 200
    known.save(paths.capacity_file)
    eventually(lambda: ask(paths, address, EUROPEAN) == (200, EUROPEAN), 240)
    assert "Nothing is left in the cloud." in output_of(folder, paths, "down")
