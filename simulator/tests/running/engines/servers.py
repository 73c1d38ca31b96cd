"""The real and the simulated server side by side, started from one command line."""

import http.client
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from simulator.tests.running.engines.requests_table import LONGEST, MODEL, Case, read
from twin.cluster.agent.launching import real_engine

BLOCK = os.getpid() % 250
ARGUMENTS = [
    "--model=/mnt/buckets/acme-models/llama-3.1-8b",
    f"--served-model-name={MODEL}",
    "--port=8000",
    "--tensor-parallel-size=4",
    f"--max-model-len={LONGEST}",
    "--gpu-memory-utilization=0.9",
    "--no-enable-log-requests",
    "--enable-prefix-caching",
    "--enable-lora",
    "--max-loras=2",
    "--max-cpu-loras=4",
    "--max-lora-rank=16",
    "--enable-auto-tool-choice",
    "--tool-call-parser=hermes",
    "--lora-modules",
    "sql=/mnt/buckets/acme-models/llama-3.1-8b/adapters/sql",
    "support=/mnt/buckets/acme-models/llama-3.1-8b/adapters/support",
]
"""As the platform writes them for a model on four TPU chips with two adapters and tools."""


class Server:
    """A server process on a loopback address of its own."""

    def __init__(self, address: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.address = address
        self.process = process
        self.log = log

    def wait(self, seconds: float) -> "Server":
        limit = time.monotonic() + seconds
        while True:
            assert self.process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < limit, f"not up: {self.log.read_text()[-3000:]}"
            try:
                if self.ask(Case("health", "/health", method="GET"))[0] == 200:
                    return self
            except OSError:
                time.sleep(0.2)

    def ask(self, case: Case) -> tuple[int, Any, str]:
        """Send a request; return status, shape of the body, and the body."""
        connection = http.client.HTTPConnection(self.address, 8000, timeout=120)
        try:
            headers = {"Content-Type": "application/json", **case.headers}
            connection.request(case.method, case.path, case.data(), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, read(text, answer.getheader("content-type") or ""), text
        finally:
            connection.close()

    def post(self, path: str, body: Any) -> tuple[int, Any]:
        status, _, text = self.ask(Case("", path, body))
        return status, json.loads(text) if text.startswith("{") else text

    def metrics(self) -> str:
        return self.ask(Case("", "/metrics", method="GET"))[2]

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)


def start_real(folder: Path, address: str, *more: str) -> Server:
    """Start the real server as the node agent does."""
    command = real_engine.command([*ARGUMENTS, *more], folder, address, lambda _path: None)
    environment = {"PATH": os.environ["PATH"], **real_engine.environment(folder)}
    return _start(folder / "real.log", command, address, environment)


def start_simulated(folder: Path, address: str, *more: str) -> Server:
    """Start the simulated server on four TPU chips."""
    command = [sys.executable, "-m", "simulator.server", *ARGUMENTS, *more]
    simulated = {"ACCELERATOR": "tpu-v6e-slice", "CHIPS": "4", "POD_IP": address}
    environment = {
        **os.environ,
        **{f"GKE_INFERENCE_SIM_{name}": value for name, value in simulated.items()},
    }
    return _start(folder / "simulated.log", command, address, environment)


def _start(log: Path, command: list[str], address: str, environment: dict[str, str]) -> Server:
    environment = {**environment, "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL
        )
    return Server(address, process, log)
