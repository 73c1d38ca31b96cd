"""The simulated engine as the process that the node agent starts."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from simulator.server.bodies.text import pieces
from twin.host.ports import free_port

pytestmark = pytest.mark.needs_tools
RULES = {
    "initialise": 100,
    "weights_gb_per_second": 0.5,
    "weights_streamed_gb_per_second": 2.0,
    "compile_gpu": 60,
    "compile_tpu": 420,
    "compile_cached_gpu": 25,
    "compile_cached_tpu": 97,
}


def start(port: int, *flags: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "simulator.server", "llama-3.1-8b", f"--port={port}", *flags],
        env={**os.environ, "GKE_INFERENCE_SIM_ACCELERATOR": "nvidia-h100-80gb", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_healthy(port: int) -> float:
    begun = time.monotonic()
    while time.monotonic() - begun < 20:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                return time.monotonic() - begun
        except urllib.error.URLError:
            time.sleep(0.05)
    raise AssertionError("not healthy in 20 s")


@pytest.mark.parametrize(("flags", "tokens"), [(("--shutdown-timeout=20",), 40), ((), 0)])
def test_running_requests_are_finished_on_sigterm_only_with_a_shutdown_timeout(
    flags: tuple[str, ...], tokens: int
):
    port = free_port()
    with start(port, *flags) as process:
        try:
            wait_healthy(port)
            body = {"prompt": "x", "max_tokens": 40, "ignore_eos": True, "stream": True}
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/v1/completions", json.dumps(body).encode()
            )
            with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
                events = answer.readline().decode()
                process.send_signal(signal.SIGTERM)
                events += answer.read().decode()
            # a chunk carries several tokens where the engine was ahead of its reader
            texts = re.findall(r'"text":("(?:[^"\\]|\\.)*")', events)
            assert len(pieces("".join(map(json.loads, texts)))) >= tokens
            assert ('"finish_reason":"length"' in events) is bool(tokens)
            assert process.wait(20) == 0
        finally:
            process.kill()


def test_health_is_refused_until_the_engine_is_ready():
    port = free_port()
    with start(
        port,
        GKE_INFERENCE_SIM_DURATIONS=json.dumps(RULES),
        GKE_INFERENCE_SIM_SPEED="100",
    ) as process:
        try:
            assert wait_healthy(port) > 1.0
        finally:
            process.terminate()
            out = process.communicate(timeout=20)[0]
    logged = [json.loads(line) for line in out.splitlines()]
    assert [line["stage"] for line in logged if "stage" in line] == [
        "initialise",
        "weights",
        "compile",
        "ready",
    ]


def test_a_model_that_does_not_fit_ends_the_process_with_status_one():
    with start(free_port(), GKE_INFERENCE_SIM_ACCELERATOR="nvidia-l4") as process:
        out = process.communicate(timeout=20)[0]
    assert process.returncode == 1
    assert "estimated maximum model length" in json.loads(out.splitlines()[-1])["message"]
