"""A published gateway and its consumers, as docs/global-load-balancer.md says: who gets in."""

import json
import socket
import ssl
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from infra.reading.load import KEY, PROJECT
from scripts.shared.engine import Engine
from tests.platform.example_checkout import checkout, output_of
from tests.platform.examples.test_examples import copied, pulumi
from twin.host.paths import TwinPaths
from twin.providers.gcp.resources.references import ATTACHMENT, FORWARDING_RULE
from twin.tests.eventually import eventually
from twin.world.capacity import GivenCertificate, World
from twin.world.store import list_resources

# the short forms are test_endpoints.py and test_service_connections.py in twin/tests/unit
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(1500)]

STACK = ("--stack", "three-regions")
HOST, PORT, MODEL, REGION = "models.example.com", 8443, "qwen3-0.6b", "us-central1"
SHOP, BANK = "acme-shop", "acme-bank"


def write(folder: Path, *consumers: str) -> None:
    """Leave one region in the example's file, whose internal gateway is published to projects."""
    file, yaml = folder / "stacks" / "Pulumi.three-regions.yaml", YAML()
    document: Any = yaml.load(file)
    platform = document["config"][f"{PROJECT}:{KEY}"]
    for region in list(platform["regions"]):
        if region != REGION:
            del platform["regions"][region]
    gateway = platform["gateway"]
    gateway.pop("front", None)
    gateway["exposure"] = "internal"
    gateway["publish"] = {"consumers": dict.fromkeys(consumers, 1)}
    yaml.dump(document, file)


class Consumer:
    """A project with an endpoint, made by the program of the example."""

    def __init__(self, paths: TwinPaths, program: Path, project: str, attachment: str) -> None:
        # an engine for each command, as an `up` may have started the twin's daemon again
        self._run: Callable[..., str] = lambda *words: pulumi(
            Engine(paths), program, *words, "-s", project
        )
        self.paths = paths
        pulumi(Engine(paths), program, "stack", "init", project)
        for name, value in {"project": project, "attachment": attachment}.items():
            self._run("config", "set", name, value)
        self._run("up", "--yes", "--skip-preview")
        found = json.loads(self._run("stack", "output", "--json"))
        self.address, self.status = str(found["address"]), str(found["status"])
        self._rule = f"projects/{project}/regions/{REGION}/forwardingRules/models"

    def seen(self) -> str:
        """Return the present status of its connection."""
        (found,) = [each for each in list_resources(self.paths) if each.id == self._rule]
        assert found.type == FORWARDING_RULE
        return str(found.outputs["pscConnectionStatus"])

    def ask(self) -> str:
        """Return the model of an answer, the status of another one, or that there is none."""
        trusted = ssl.create_default_context(cafile=str(self.paths.ca_bundle))
        connection = HTTPConnection(HOST, PORT, timeout=20)
        body = json.dumps({"model": MODEL, "prompt": "Who may ask?", "max_tokens": 4})
        try:
            plain = socket.create_connection((self.address, PORT), timeout=20)
            connection.sock = trusted.wrap_socket(plain, server_hostname=HOST)
            connection.request(
                "POST", "/v1/completions", body, {"Content-Type": "application/json"}
            )
            answer = connection.getresponse()
            text = answer.read()
            return json.loads(text)["model"] if answer.status == 200 else str(answer.status)
        except ConnectionRefusedError:
            return "refused"
        finally:
            connection.close()

    def destroy(self) -> None:
        self._run("destroy", "--yes", "--skip-preview")


def test_a_listed_project_reaches_a_model_through_its_endpoint_until_it_leaves_the_list(
    tmp_path: Path, paths: TwinPaths
) -> None:
    folder = checkout(tmp_path / "checkout", "three-regions")
    World(certificates=(GivenCertificate(name="models-example-com", hostname=HOST),)).save(
        paths.capacity_file
    )
    write(folder, SHOP)
    assert f"Models   {MODEL}" in output_of(folder, paths, "up", *STACK)
    attachment = Engine(paths).outputs_of("three-regions")["attachments"][REGION]
    program = copied("three-regions/consumer", tmp_path)

    shop = Consumer(paths, program, SHOP, attachment)
    assert shop.status == "ACCEPTED"
    eventually(lambda: shop.ask() == MODEL, 120)
    bank = Consumer(paths, program, BANK, attachment)
    assert (bank.status, bank.ask()) == ("PENDING", "refused")

    write(folder, BANK)
    output_of(folder, paths, "up", *STACK)
    eventually(lambda: (shop.ask(), bank.ask()) == ("refused", MODEL), 30)
    assert (shop.seen(), bank.seen()) == ("PENDING", "ACCEPTED")
    (published,) = [each for each in list_resources(paths) if each.type == ATTACHMENT]
    seen = {
        each["endpoint"].split("/")[6]: each for each in published.outputs["connectedEndpoints"]
    }
    assert {name: each["status"] for name, each in seen.items()} == {
        SHOP: "PENDING",
        BANK: "ACCEPTED",
    }

    shop.destroy()
    bank.destroy()
    assert "Nothing is left in the cloud." in output_of(folder, paths, "down")
