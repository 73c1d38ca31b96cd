"""Records of clients that leave early, against the counters of a simulated engine."""

import http.client
import json
import os
import random
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.clients.reconcile import ESTIMATE_TOLERANCE, TOLERANCE, Compared
from tests.running.callout.world import World, bearer, until
from twin.host.ports import free_port, listens

pytestmark = pytest.mark.needs_tools
ANSWER = 150
"""Tokens of an answer to its end."""
AT_ONCE = 64
PROMPT = "Which keys open which doors? "


class Engine:
    """A simulated engine on two L4 GPUs: about 35 tokens per second for each client.

    A busy machine notices a client that has gone after some ten milliseconds.
    """

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        argv = [
            *(sys.executable, "-m", "simulator.server", "--enable-force-include-usage"),
            *("--model=/mnt/buckets/acme-models/llama-3.1-8b", "--served-model-name=llama"),
            *(f"--port={self.port}", "--tensor-parallel-size=2", "--max-model-len=2048"),
        ]
        settings = {"ACCELERATOR": "nvidia-l4", "CHIPS": "2", "POD_IP": "127.0.0.1"}
        variables = {f"GKE_INFERENCE_SIM_{name}": value for name, value in settings.items()}
        with (folder / "engine.log").open("wb") as log:
            environment = {**os.environ, **variables}
            self._process = subprocess.Popen(argv, env=environment, stdout=log, stderr=log)
        until(lambda: listens(self.port))

    def _sum(self, name: str) -> int:
        url = f"http://127.0.0.1:{self.port}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return sum(round(float(one.rsplit(" ", 1)[1])) for one in lines if one.startswith(name))

    def tokens(self) -> tuple[int, int]:
        """Return the tokens of prompts and answers, once no request runs."""
        until(lambda: not self._sum("vllm:num_requests_running{"))
        return self._sum("vllm:prompt_tokens_total{"), self._sum("vllm:generation_tokens_total{")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait(10)


@pytest.fixture
def engine(world: World, tmp_path: Path) -> Iterator[Engine]:
    made = Engine(tmp_path)
    world.engine_port = made.port
    yield made
    made.stop()


@dataclass(frozen=True)
class Client:
    """A client that reads a stream up to some event, or waits for a whole answer for some time."""

    number: int
    events: int = 0
    seconds: float = 0.0

    def ask(self, world: World) -> None:
        body = {
            "ignore_eos": True,
            "max_tokens": ANSWER,
            "model": "llama",
            "prompt": f"{self.number} {PROMPT * (1 + self.number % 5)}",
            "stream": bool(self.events),
        }
        connection = http.client.HTTPConnection(world.url.removeprefix("http://"), timeout=60)
        headers = {**bearer("ada"), "content-type": "application/json"}
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        if self.seconds:
            time.sleep(self.seconds)
            connection.close()
            return
        answer = connection.getresponse()
        assert answer.status == 200
        if not self.events:
            assert json.loads(answer.read())["usage"]["completion_tokens"] == ANSWER
        for _ in range(2 * self.events):  # an event is a line with text and a blank one
            answer.readline()
        answer.close()
        connection.close()


def ask_all(world: World, clients: list[Client]) -> None:
    random.Random(29).shuffle(clients)
    before = len(world.records())
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for asked in [pool.submit(client.ask, world) for client in clients]:
            asked.result()
    until(lambda: len(world.records()) == before + len(clients))


@pytest.mark.parametrize("count", [200, pytest.param(1000, marks=pytest.mark.soak)])
def test_records_agree_with_the_engine_although_three_in_ten_clients_leave_their_streams(
    world, engine, count
):
    world.start()
    ask_all(world, [Client(at) for at in range(count, count + 8)])  # the gate learns their speed
    chance = random.Random(count)
    left = {at: chance.randrange(1, ANSWER - 10) for at in range(count * 3 // 10)}
    ask_all(world, [Client(at, events=left.get(at, 0)) for at in range(count)])
    records = world.records()
    prompts, answers = engine.tokens()
    assert sum(one["prompt_tokens"] for one in records) == prompts
    made = sum(one["completion_tokens"] for one in records)
    row = Compared("llama", "completion", made, answers)
    assert row.agrees, (made, answers)  # within 0.1 percent, or 100 of the fewer tokens
    assert sum(one["completion_tokens"] < ANSWER for one in records) >= count // 4


@pytest.mark.soak
def test_whole_answers_that_nobody_waits_for_cost_about_what_the_engine_generated(world, engine):
    world.start()
    ask_all(world, [Client(at) for at in range(60)])  # their speed is the measure of the others
    known = engine.tokens()[1]
    chance = random.Random(4)
    clients = [Client(at) for at in range(100, 240)]
    clients += [Client(at, seconds=chance.uniform(0.5, 3.5)) for at in range(60)]
    ask_all(world, clients)
    answers = engine.tokens()[1] - known
    records = world.records()[60:]
    estimates = sum(one["completion_tokens"] for one in records if one["estimated"])
    assert estimates > ANSWER
    made = sum(one["completion_tokens"] for one in records)
    assert abs(made - answers) <= TOLERANCE * answers + ESTIMATE_TOLERANCE * estimates
