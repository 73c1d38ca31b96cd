"""What the gateway adds to prompts of 220 KB: time to the first byte, and processor time."""

import http.client
import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from twin.cluster.gateway.envoy.process import EnvoyProcess
from twin.tests.running.gateway.client import ADDRESS, PORT
from twin.tests.running.gateway.cluster import Cluster

# the short form is test_gateway_limits.py, with large bodies one at a time
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(900)]

PROMPT_BYTES = 220_000
TOGETHER = (1, 20, 100)
"""Requests at once. The figures of upstream are of 20 and of 100."""
ROUNDS = 6
"""Batches of each way in turn, so that other work on the machine meets both."""
TICKS = os.sysconf("SC_CLK_TCK")


def first_byte(address: str, port: int, body: bytes, start: threading.Barrier) -> float:
    """Return the milliseconds from the request to the first byte of its answer."""
    connection = http.client.HTTPConnection(address, port, timeout=120)
    connection.connect()
    start.wait(60)
    begun = time.perf_counter()
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    taken = 1000 * (time.perf_counter() - begun)
    answer.read()
    connection.close()
    assert answer.status == 200
    return taken


def batch(address: str, port: int, count: int, round_: int) -> list[float]:
    """Send requests at once; each prompt is its own, so that none is in a cache."""
    start = threading.Barrier(count, timeout=60)
    with ThreadPoolExecutor(count) as clients:
        sent = []
        for number in range(count):
            words = f"{round_} {number} {address} ".ljust(PROMPT_BYTES, "x")
            body = json.dumps({"model": "llama-8b", "prompt": words, "max_tokens": 1}).encode()
            sent.append(clients.submit(first_byte, address, port, body, start))
        return [each.result(150) for each in sent]


def processor_ms(pids: dict[str, int]) -> dict[str, float]:
    """Return the processor time of programs, in milliseconds."""
    found: dict[str, float] = {}
    for name, pid in pids.items():
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        found[name] = 1000 * (int(fields[11]) + int(fields[12])) / TICKS
    return found


@pytest.mark.parametrize("count", TOGETHER)
def test_large_prompts_are_answered_and_what_they_cost_is_recorded(
    cluster: Cluster, models: dict[str, list[str]], count: int, record_property: Any
) -> None:
    envoy = EnvoyProcess(cluster.dir / "gateways" / "default--models", cluster.dir / "x.log").pid()
    assert envoy is not None
    programs = {"body router": "body-router", "picker": "llama-epp"}
    pids = {"Envoy": envoy} | {name: cluster.pid(program) for name, program in programs.items()}
    batch(ADDRESS, PORT, count, -1)  # connections, and the code of the programs
    direct: list[float] = []
    through: list[float] = []
    before = processor_ms(pids)
    for round_ in range(ROUNDS):
        direct += batch(models["llama"][round_ % 3], 8000, count, round_)
        through += batch(ADDRESS, PORT, count, round_)
    spent = {name: now - before[name] for name, now in processor_ms(pids).items()}
    each = ", ".join(f"{name} {ms / len(through):.1f} ms" for name, ms in spent.items())
    engine, gateway = median(direct), median(through)
    record_property(
        "figures",
        f"{count} at once: first byte after {engine:.0f} ms from the engine and {gateway:.0f} ms"
        f" through the gateway, {gateway - engine:.0f} ms more, {gateway / engine:.1f} times;"
        f" processor time of a request: {each}",
    )
