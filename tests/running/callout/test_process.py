"""The program as a process: its flags, its file, its health, its end."""

import subprocess

import grpc
import pytest

from tests.running.callout.world import bearer, until
from twin.toolchain import tool

pytestmark = pytest.mark.needs_tools
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"
PROMPT = {"model": "llama", "max_tokens": 1, "prompt": "x"}


def health(callout, service: str = "") -> bytes:
    """Return the answer of gRPC's health protocol about a service, in its bytes."""
    with grpc.insecure_channel(f"127.0.0.1:{callout.health}") as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")
        asked = service.encode()
        return check(b"\x0a" + bytes([len(asked)]) + asked if asked else b"", timeout=5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("region: r\nreplicas: 0\n", "replicas: must be 1 to 20, got 0"),
        ("region: r\nreplicas: many\n", "replicas: must be a whole number, got string"),
        ("region: r\nreplica: 1\n", "replica: must be a known field, got an unknown one"),
        ("region: [\n", "yaml: line 1"),
    ],
)
def test_a_bad_first_file_ends_the_program_with_one_line(tmp_path, content, message):
    file = tmp_path / "config.yaml"
    file.write_text(content)
    answer = subprocess.run(
        [tool("callout"), "--config", file], capture_output=True, text=True, check=False, timeout=20
    )
    assert answer.returncode == 2
    assert answer.stdout == ""
    assert len(answer.stderr.splitlines()) == 1
    assert f"{file}: {message}" in answer.stderr


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "--config: is required"),
        (["--config", "missing"], "--config: open missing: no such file or directory"),
        (["--port", "1"], "flag provided but not defined: -port"),
        (["--config", "x", "--forwarded-hops", "0"], "--forwarded-hops: must be at least 1, got 0"),
        (
            ["--config", "x", "--remove-response-headers", "Server"],
            'invalid value "Server" for flag -remove-response-headers: must be names of headers in '
            'lowercase, separated by commas, got "Server"',
        ),
        (
            ["--config", "x", "--store-timeout", "0s"],
            "--store-timeout: must be more than 0, got 0s",
        ),
    ],
)
def test_a_bad_flag_ends_the_program_with_one_line(flags, message, tmp_path):
    answer = subprocess.run(
        [tool("callout"), *flags],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert (answer.returncode, answer.stderr) == (2, f"{message}\n")


def test_a_replica_serves_once_it_has_keys_and_says_before_it_ends_that_it_does_not(world):
    world.servers.keys = None
    world.start("--drain", "2s")
    callout = world.callouts[0]
    assert health(callout) == NOT_SERVING
    assert health(callout, "liveness") == SERVING, "it is not to be restarted for that"
    world.servers.keys = {"keys": []}
    until(lambda: health(callout) == SERVING, 5)
    callout.terminate()
    until(lambda: health(callout) == NOT_SERVING, 1)
    assert world.ask(PROMPT, bearer("ada")).status == 401, "calls are still answered"
    assert callout.process.wait(10) == 0


def test_metrics_have_the_outcomes_the_refusals_and_the_dollars(world):
    world.start()
    assert world.ask(PROMPT, bearer("ada")).status == 200
    assert world.ask(PROMPT, bearer("eve")).status == 401
    assert world.ask({**PROMPT, "model": "no"}, bearer("ada")).status == 404
    labels = 'team="research"'
    until(lambda: world.metric("callout_requests_total") == 2)
    ok = f'callout_requests_total{{model="llama",outcome="ok",{labels}}}'
    assert world.metric(ok) == 1
    assert world.metric('callout_refusals_total{reason="invalid_api_key",team=""}') == 1
    assert world.metric(f'callout_refusals_total{{reason="model_not_found",{labels}}}') == 1
    assert 0 < world.metric(f'callout_usd_total{{model="llama",{labels}}}') < 1e-4
    assert world.metric("callout_processing_seconds_count") >= 4
