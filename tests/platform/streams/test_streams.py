"""A stream on the whole platform: nothing is lost and nothing is kept twice, whoever dies."""

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import openai
import pytest

from tests.platform import example_checkout
from tests.platform.people import TTFT_SLO_MS, People
from tests.platform.streams.stream import NAME, STACK, Stream, until
from twin.host.paths import TwinPaths

pytestmark = pytest.mark.needs_tools

MODEL = "llama-3.1-8b"
ASLEEP_SECONDS = 60
"""Beyond the period of the autoscaler's policies: what it allows may depend on the time at zero.
The controller's clock is that of the machine. The short form is the invariant scaling-has-room."""
POISON = {
    b"no json": "not-json",
    b'{"prompt": "a", "model": "gpt-5"}': "unknown-model",
    b'{"question": "a"}': "no-request",
    json.dumps({"prompt": "a" * (1 << 20)}).encode(): "too-large",
    b'{"prompt": "a", "max_tokens": -1}': "http-400",
}


def kill_at_random(stream: Stream, over: threading.Event, every: float, most: int) -> list[str]:
    """Kill workers and engines until it is over, and return whose processes ended."""
    chosen = random.Random(7)
    killed: list[str] = []
    while len(killed) < most and not over.wait(every):
        container = chosen.choice(["stream", "vllm"])
        pids = stream.pids(container)
        if pids:
            os.kill(chosen.choice(pids), signal.SIGKILL)
            killed.append(container)
    return killed


@pytest.mark.soak  # the short forms are tests/running/stream and tests/platform/batch
@pytest.mark.parametrize(
    ("messages", "every", "most"),
    [
        pytest.param(300, 1.0, 8, id="short"),
        pytest.param(
            10_000,
            3.0,
            10_000,
            id="full",
            marks=pytest.mark.timeout(7200),
        ),
    ],
)
def test_a_backlog_is_answered_once_each_while_workers_and_engines_die(
    tmp_path: Path,
    paths: TwinPaths,
    messages: int,
    every: float,
    most: int,
    record_property: Callable[[str, object], None],
    series_are_recorded: Callable[[TwinPaths, str], None],
) -> None:
    folder = example_checkout.checkout(tmp_path / "checkout", "streaming")
    up = example_checkout.run(folder, paths, "up", *STACK, stderr=subprocess.PIPE)
    assert up.returncode == 0, f"{up.stdout[-3000:]}{up.stderr[-2000:]}"
    stream = Stream(paths)
    until(lambda: not stream.pids("stream"), 60)  # nothing to do: nobody is there
    time.sleep(ASLEEP_SECONDS)

    endpoint = (paths.root.parent / "streaming" / "endpoint").read_text().strip()
    people = People(openai.OpenAI(base_url=f"{endpoint}/v1", api_key="none", max_retries=3), MODEL)
    began = time.monotonic()
    sent = {
        stream.put(
            json.dumps(
                {"messages": [{"role": "user", "content": f"Sum up {at}"}], "max_tokens": 64}
            ).encode()
        )
        for at in range(messages)
    }
    poison = {stream.put(data): reason for data, reason in POISON.items()}
    until(lambda: stream.pids("stream"), 60)
    over = threading.Event()
    killed: list[str] = []
    killer = threading.Thread(
        target=lambda: killed.extend(kill_at_random(stream, over, every, most))
    )
    killer.start()
    try:
        until(lambda: stream.backlog() == 0, 0.5 * messages)
    finally:
        over.set()
        killer.join()
        people.stop()
    seconds = time.monotonic() - began
    assert {"stream", "vllm"} <= set(killed), killed

    answers = stream.take(f"{NAME}-results")
    by_id = {each.attributes["result_id"]: each for each in answers}
    assert set(by_id) == {f"summaries/{each}" for each in sent}
    assert all("choices" in json.loads(each.data) for each in by_id.values())
    letters = stream.take(f"{NAME}-dead-letters")
    reasons = {each.attributes["original_id"]: each.attributes["reason"] for each in letters}
    assert reasons == poison
    until(lambda: not stream.pids("stream"), 60)
    series_are_recorded(paths, "streaming")
    # an engine that is killed cuts the one request of people that it may be answering
    assert len(people.failed) <= killed.count("vllm"), people.failed
    if messages == 10_000:  # a short run says more about the other tests on the machine
        # a round in which no process of the chosen kind ran is no kill
        assert len(killed) >= 0.5 * seconds / every
        assert people.answered >= 0.5 * seconds
        assert people.ttft_p95_ms <= TTFT_SLO_MS
    record_property(
        "figures",
        f"{messages:,} messages in {seconds:.0f} s through {len(killed)} kills, "
        f"{len(answers) - len(by_id)} results twice; beside them, {people.answered:,} answers to "
        f"people and {len(people.failed)} errors, p95 TTFT {people.ttft_p95_ms:.0f} ms",
    )
