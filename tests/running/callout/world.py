"""A gateway with callouts: a real Envoy, the program, its store, and the servers of the tests."""

import base64
import hashlib
import json
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from bench.latency.callout_gateway import bootstrap
from tests.running.callout.servers import Servers
from tests.running.programs import Program
from twin.host.ports import free_port, free_ports, listens
from twin.tests.metric_pages import total
from twin.toolchain import tool

LIMIT = 30.0
CLIENT = "203.0.113.9"
LOAD_BALANCER = "34.0.0.1"
PATIENT = ("--store-timeout", "10s")
"""A busy machine can keep the store from its answer for longer than the 50 ms of a gateway, and a
replica without an answer counts alone."""
PRICES = {"llama": {"input_usd_per_million": 0.2, "output_usd_per_million": 0.6}}


def key_of(name: str) -> str:
    """Return an API key; the name is its id."""
    return f"gki_{name:a<8}_{base64.urlsafe_b64encode(name.encode() * 32)[:43].decode()}"


def key_entry(name: str, team: str) -> dict[str, Any]:
    digest = hashlib.sha256(key_of(name).encode()).hexdigest()
    created = "2026-11-22T00:00:00Z"
    return {
        "id": f"{name:a<8}",
        "team": team,
        "sha256": digest,
        "created": created,
        "expires": None,
    }


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key_of(name)}"}


def until(condition: Any, seconds: float = LIMIT) -> float:
    """Wait until a condition holds, and return how long that took in seconds."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        if condition():
            return time.monotonic() - began
        time.sleep(0.02)
    raise AssertionError(f"not true within {seconds} s")


class Callout:
    """One replica of the program."""

    def __init__(self, folder: Path, config: Path, endpoint: str, *flags: str) -> None:
        self.port, self.health, self.metrics_port = free_ports(3)
        self.out = folder / f"callout-{self.port}.jsonl"
        self.log = folder / f"callout-{self.port}.log"
        self._argv = [
            *(str(tool("callout")), "--config", str(config), "--address", "127.0.0.1"),
            *("--grpc-port", str(self.port), "--health-port", str(self.health)),
            *("--metrics-port", str(self.metrics_port), "--drain", "500ms", *flags),
        ]
        self._endpoint = endpoint
        self.start()

    def start(self) -> None:
        """Start the program, also again after it was killed, with its records so far."""
        with self.out.open("ab") as out, self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self._argv, stdout=out, stderr=log, env={"SECRET_MANAGER_ENDPOINT": self._endpoint}
            )
        until(lambda: self.process.poll() is not None or b'"serving"' in self.log.read_bytes())
        assert self.process.poll() is None, self.log.read_text()

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.read_text().splitlines()]

    def metric(self, name: str) -> float:
        """Return the sum of a metric over its labels, where `name` can end with some of them."""
        return total(f"http://127.0.0.1:{self.metrics_port}/metrics", name)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        if self.process.poll() is None:
            self.terminate()
            self.process.wait(20)


class World:
    """Everything that a test asks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers = Servers()
        self.config_file = folder / "config.yaml"
        self.callouts: list[Callout] = []
        self.store: subprocess.Popen[bytes] | None = None
        self._store_port = free_port()
        self._envoy: subprocess.Popen[bytes] | None = None
        self._router: Program | None = None
        self.url = ""
        self.engine_port = self.servers.port

    def write(self, **config: Any) -> None:
        """Write the configuration: the teams, and whatever a test changes."""
        found = {
            "region": "us-central1",
            "replicas": 1,
            "teams": {"research": {"models": ["llama", "llama-sql"], "objective": "batch"}},
            "prices": PRICES,
            "keys": {"secret": "projects/p/secrets/s"},
            **config,
        }
        text = yaml.safe_dump({name: value for name, value in found.items() if value is not None})
        new = self.config_file.with_suffix(".new")
        new.write_text(text)
        new.rename(self.config_file)

    def start_store(self) -> dict[str, str]:
        """Start a store and return the configuration that names it."""
        address = f"127.0.0.1:{self._store_port}"
        argv = [str(tool("valkey")), "--address", address]
        self.store = subprocess.Popen(argv)
        until(lambda: listens(self._store_port))
        return {"address": address}

    def stored(self, key: str, field: str) -> str:
        """Return a field of a hash in the store; empty if there is none."""
        with socket.create_connection(("127.0.0.1", self._store_port), timeout=10) as link:
            words = ("HGET", key, field)
            call = "".join(f"${len(word)}\r\n{word}\r\n" for word in words)
            link.sendall(f"*{len(words)}\r\n{call}".encode())
            lines = link.recv(4096).decode().split("\r\n")
        return lines[1] if lines[0].startswith("$") and lines[0] != "$-1" else ""

    def stop_store(self) -> None:
        if self.store is not None:
            self.store.kill()
            self.store.wait(10)

    def _start_router(self, asked: list[str]) -> int:
        """Start a body router that asks the first replica, and return its port."""
        port, health, metrics = free_ports(3)
        argv = [str(tool("body-router")), "--address=127.0.0.1", f"--grpc-port={port}"]
        argv += [f"--grpc-health-port={health}", f"--metrics-port={metrics}", "--drain=0s"]
        argv += [f"--gate=127.0.0.1:{self.callouts[0].port}", f"--asked={','.join(asked)}"]
        self._router = Program(self.folder / "router.log", argv, {}, metrics)
        self._router.wait()
        return port

    def start(
        self, *flags: str, replicas: int = 1, asked: list[str] | None = None, **config: Any
    ) -> None:
        """Start the replicas and the gateway in front of them.

        Args:
            flags: Flags of the replicas.
            replicas: Number of replicas.
            asked: Models that a body router in front asks about; None for no router.
            config: Parts of the configuration.
        """
        self.write(replicas=replicas, **config)
        endpoint = self.servers.url
        for _ in range(replicas):
            self.callouts.append(Callout(self.folder, self.config_file, endpoint, *flags))
        port, admin = free_ports(2)
        file = self.folder / "envoy.json"
        ports = [callout.port for callout in self.callouts]
        router = None if asked is None else self._start_router(asked)
        made = bootstrap(port, admin, ports, self.engine_port, router=router)
        file.write_text(json.dumps(made))
        with (self.folder / "envoy.log").open("wb") as log:
            self._envoy = subprocess.Popen(
                [
                    str(tool("envoy")),
                    "-c",
                    str(file),
                    "--disable-hot-restart",
                    "--concurrency",
                    "1",
                ],
                stdout=log,
                stderr=log,
            )
        self.url = f"http://127.0.0.1:{port}"
        wanted = f"callout::127.0.0.1:{ports[-1]}::health_flags::healthy"
        until(lambda: wanted in _text(f"http://127.0.0.1:{admin}/clusters"))
        until(lambda: listens(port))  # Envoy opens its port a moment after its clusters are ready

    def records(self) -> list[dict[str, Any]]:
        return [record for callout in self.callouts for record in callout.records()]

    def metric(self, name: str) -> float:
        running = [callout for callout in self.callouts if callout.process.poll() is None]
        return sum(callout.metric(name) for callout in running)

    def ask(
        self,
        body: Any,
        headers: dict[str, str] | None = None,
        path: str = "/v1/chat/completions",
        method: str = "POST",
    ) -> "Answer":
        """Send one request, as the load balancer passes it on."""
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {
            "content-type": "application/json",
            "x-forwarded-for": f"{CLIENT}, {LOAD_BALANCER}",
            **(headers or {}),
        }
        request = urllib.request.Request(  # noqa: S310 - our own
            self.url + path, data, given, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - our own
                return Answer(answer.status, dict(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, dict(error.headers), error.read())

    def stop(self) -> None:
        for callout in self.callouts:
            callout.stop()
        if self._router is not None:
            self._router.terminate()
            self._router.process.wait(20)
        if self._envoy is not None:
            self._envoy.kill()
            self._envoy.wait(10)
        self.stop_store()
        self.servers.stop()


class Answer:
    """An answer of the gateway."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    @property
    def code(self) -> str:
        """The code of an error."""
        return json.loads(self.body)["error"]["code"]


def _text(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - our own
            return answer.read().decode()
    except OSError:
        return ""
