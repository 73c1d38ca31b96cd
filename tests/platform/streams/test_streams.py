"""A stream on the whole platform: nothing is lost and nothing is kept twice, whoever dies."""

import json
import os
import random
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.platform import example_checkout
from tests.platform.streams.stream import NAME, STACK, Stream, until
from twin.host.paths import TwinPaths

pytestmark = pytest.mark.needs_tools

MESSAGES = 300
KILLS = 8
POISON = {
    b"no json": "not-json",
    b'{"prompt": "a", "model": "gpt-5"}': "unknown-model",
    b'{"question": "a"}': "no-request",
    json.dumps({"prompt": "a" * (1 << 20)}).encode(): "too-large",
    b'{"prompt": "a", "max_tokens": -1}': "http-400",
}


def kill_at_random(stream: Stream, over: threading.Event) -> list[str]:
    """Kill workers and engines, one a second, and return whose processes ended."""
    chosen = random.Random(7)
    killed: list[str] = []
    while len(killed) < KILLS and not over.wait(1.0):
        container = chosen.choice(["stream", "vllm"])
        pids = stream.pids(container)
        if pids:
            os.kill(chosen.choice(pids), signal.SIGKILL)
            killed.append(container)
    return killed


def test_a_backlog_is_answered_once_each_while_workers_and_engines_die(
    tmp_path: Path, paths: TwinPaths
) -> None:
    folder = example_checkout.checkout(tmp_path / "checkout", "streaming")
    up = example_checkout.run(folder, paths, "up", *STACK, stderr=subprocess.PIPE)
    assert up.returncode == 0, f"{up.stdout[-3000:]}{up.stderr[-2000:]}"
    stream = Stream(paths)
    until(lambda: not stream.pids("stream"), 60)  # nothing to do: nobody is there

    sent = {
        stream.put(
            json.dumps(
                {"messages": [{"role": "user", "content": f"Sum up {at}"}], "max_tokens": 64}
            ).encode()
        )
        for at in range(MESSAGES)
    }
    poison = {stream.put(data): reason for data, reason in POISON.items()}
    until(lambda: stream.pids("stream"), 60)
    over = threading.Event()
    killed: list[str] = []
    killer = threading.Thread(target=lambda: killed.extend(kill_at_random(stream, over)))
    killer.start()
    until(lambda: stream.backlog() == 0, 150)
    over.set()
    killer.join()
    assert {"stream", "vllm"} <= set(killed), killed

    answers = stream.take(f"{NAME}-results")
    by_id = {each.attributes["result_id"]: each for each in answers}
    assert set(by_id) == {f"summaries/{each}" for each in sent}
    assert all("choices" in json.loads(each.data) for each in by_id.values())
    letters = stream.take(f"{NAME}-dead-letters")
    reasons = {each.attributes["original_id"]: each.attributes["reason"] for each in letters}
    assert reasons == poison
    until(lambda: not stream.pids("stream"), 60)
