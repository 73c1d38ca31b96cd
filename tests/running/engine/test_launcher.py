import json
import signal
from datetime import datetime, timedelta

import pytest

from tests.running.engine.conftest import serving

pytestmark = pytest.mark.needs_tools  # launcher and engine as processes
FIRST_TOKEN = b"data: token\n"


def text(line):
    return line["message"]


def test_a_server_that_starts_is_healthy_and_not_ready_until_it_answers(launch):
    server = launch(more={"FAKE_HOLD": "hold"})
    server.until(lambda: server.is_at("load"))
    assert server.get("/healthz")[0] == 200
    assert server.get("/readyz")[0] == 503
    (server.folder / "hold").touch()
    server.until(lambda: server.get("/readyz")[0] == 200)
    status, said = server.get("/stage")
    assert (status, said["stage"], said["hardware"], said["devices"]) == (200, "serving", "tpu", 4)
    assert server.get("/nothing")[0] == 404
    assert server.end() == 0


def test_the_engine_gets_the_command_line_that_the_platform_would_write(launch):
    server = launch(
        more={"FAKE_ARGUMENTS": "arguments.json"},
        serving={"tpu": serving("/models/m", cache_folder="/mnt/xla-cache")},
    )
    server.until(lambda: server.get("/readyz")[0] == 200)
    given = json.loads((server.folder / "arguments.json").read_text())
    assert given["argv"][:3] == ["serve", "/models/m", "--served-model-name=m"]
    assert "--tensor-parallel-size=4" in given["argv"]
    assert given["environment"]["VLLM_XLA_CACHE_PATH"] == "/mnt/xla-cache"
    assert given["environment"]["JAX_COMPILATION_CACHE_DIR"] == "/mnt/xla-cache"


def test_every_line_of_the_log_is_one_that_cloud_logging_reads(launch):
    server = launch()
    server.until(lambda: server.get("/readyz")[0] == 200)
    engine = {text(line): line for line in server.lines if line["logger"] == "engine"}
    assert engine["INFO 11-21 12:00:00 [model.py:1] Starting to load model m"]["severity"] == "INFO"
    assert "loading 100%" in engine, "of a progress bar the last state is kept"
    assert not any("1%\r" in line for line in engine)
    stages = [line["stage"] for line in server.lines if "stage" in line]
    assert stages == ["weights", "load", "compile", "serving"]


def test_open_streams_are_finished_before_the_engine_ends(launch):
    server = launch()
    server.until(lambda: server.get("/readyz")[0] == 200)
    with server.stream() as stream:
        assert stream.readline() == FIRST_TOKEN
        server.process.send_signal(signal.SIGTERM)
        server.until(lambda: server.is_at("draining"))
        assert server.get("/readyz")[0] == 503
        assert server.get("/healthz")[0] == 200, "a server that drains is not broken"
        for _ in range(20):
            assert stream.readline() == FIRST_TOKEN
        (server.folder / "finish").touch()
        assert stream.read().endswith(b"data: [DONE]\n")
    assert server.process.wait(30) == 0
    assert any("drained, nothing is open" in text(line) for line in server.lines)


def test_a_stream_that_lasts_longer_than_the_longest_request_is_cut(launch):
    server = launch(longest_request_seconds=1)
    server.until(lambda: server.get("/readyz")[0] == 200)
    with server.stream() as stream:
        assert stream.readline() == FIRST_TOKEN
        assert server.end() == 0
    assert any("drained, 1.0 is open" in text(line) for line in server.lines)


def test_requests_that_come_late_are_served_until_load_balancers_have_let_go(launch):
    server = launch("--settle-seconds=600")
    server.until(lambda: server.get("/readyz")[0] == 200)
    server.process.send_signal(signal.SIGTERM)
    server.until(lambda: server.is_at("draining"))
    with server.stream() as stream:
        assert stream.readline() == FIRST_TOKEN
        (server.folder / "finish").touch()
        assert stream.read().endswith(b"data: [DONE]\n")
    assert server.process.poll() is None, "idle, but it still takes requests"
    assert server.end() == 0


def test_a_server_that_must_end_waits_for_load_balancers_as_long_as_its_spec_says(launch):
    server = launch(settle_seconds=1)
    server.until(lambda: server.get("/readyz")[0] == 200)
    assert server.end() == 0
    times = {text(line): line["time"] for line in server.lines}
    began = next(at for said, at in times.items() if said.startswith("asked to end"))
    drained = datetime.fromisoformat(times["drained, nothing is open"])
    assert drained - datetime.fromisoformat(began) >= timedelta(seconds=1)


def test_a_second_signal_ends_the_waiting(launch):
    server = launch()
    server.until(lambda: server.get("/readyz")[0] == 200)
    with server.stream() as stream:
        assert stream.readline() == FIRST_TOKEN
        server.process.send_signal(signal.SIGTERM)
        server.until(lambda: server.is_at("draining"))
        assert server.end() == 0


def test_a_signal_while_it_loads_ends_the_engine_at_once(launch):
    server = launch(more={"FAKE_HOLD": "hold"})
    server.until(lambda: any("Starting to load" in text(line) for line in server.lines))
    assert server.end() == 0
    assert not any(line.get("stage") == "serving" for line in server.lines)


def test_an_engine_that_does_not_end_is_killed(launch):
    server = launch(more={"FAKE_DEAF": "1"}, stop_seconds=1)
    server.until(lambda: server.get("/readyz")[0] == 200)
    assert server.end() == 137
    assert any("killed: not ended within 1 s" in text(line) for line in server.lines)


def test_a_crash_is_said_once_with_the_last_lines_and_the_exit_code(launch):
    server = launch(more={"FAKE_CRASH": "3"})
    assert server.process.wait(30) == 3
    (said,) = [line for line in server.lines if line.get("stage") == "broken"]
    assert said["severity"] == "ERROR"
    assert said["exit_code"] == 3
    assert said["last_lines"][-1] == "Traceback: the last words"


def test_an_engine_that_dies_of_a_signal_while_it_serves_has_the_code_of_a_shell(launch):
    server = launch(more={"FAKE_DIE": "die"})
    server.until(lambda: server.get("/readyz")[0] == 200)
    (server.folder / "die").touch()
    assert server.process.wait(30) == 128 + signal.SIGSEGV


def test_absent_hardware_is_refused_where_the_pod_asks_for_it(launch):
    server = launch("--hardware=gpu")
    assert server.process.wait(30) == 2
    assert "hardware: must be gpu, as this container is for it, got tpu" in text(server.lines[-1])


def test_a_spec_that_is_wrong_is_one_message(launch):
    server = launch("--spec=nothing.json")
    assert server.process.wait(30) == 2
    assert "nothing.json" in text(server.lines[-1])


def test_what_would_be_started_can_be_shown(launch):
    server = launch("--show", "--hardware=tpu")
    assert server.process.wait(30) == 0
    assert server.log.read_text().splitlines()[:3] == ["vllm", "serve", "/models/m"]
