"""The real vLLM against the simulated one: flags, metrics, answers, adapters, and its end.

docs/real-engine.md lists what differs by design.
"""

import http.client
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from gke_inference.catalogue.engines import engine
from simulator.tests.running.engines.requests_table import CASES, MODEL, POOLING, Case
from simulator.tests.running.engines.servers import BLOCK, Server, start_real, start_simulated
from twin.engines.real.tiny_model import write_adapter

# test_real_parser.py asks the real vLLM about command lines without starting it
pytestmark = [
    pytest.mark.needs_tools,
    pytest.mark.needs_vllm,
    pytest.mark.soak,
    pytest.mark.timeout(900),
]
METRICS = engine("vllm").metrics
DEVELOPERS = "vllm:sleep_mode"  # exported by the real server in developer mode only
_STARTS_IN = 800.0  # half a minute on an idle machine with two cores


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """The real and the simulated server."""
    folder = tmp_path_factory.mktemp("engines")
    real = start_real(folder, f"127.50.{BLOCK}.1")
    simulated = start_simulated(folder, f"127.50.{BLOCK}.2")
    try:
        yield real.wait(_STARTS_IN), simulated.wait(60)
    finally:
        real.stop()
        simulated.stop()


@pytest.fixture
def real(servers: tuple[Server, Server]) -> Server:
    return servers[0]


def different(cases: Sequence[Case], servers: tuple[Server, Server]) -> dict[str, object]:
    """Return the answers whose status or keys differ, by the name of the case."""
    found: dict[str, object] = {}
    for case in cases:
        real, simulated = (server.ask(case) for server in servers)
        if simulated[:2] != real[:2]:
            found[case.name] = (real, simulated)
    return found


def test_status_and_keys_of_every_answer_are_the_same(
    servers: tuple[Server, Server], record_property: Callable[[str, object], None]
):
    assert different(CASES, servers) == {}
    record_property("figures", f"{len(CASES)} requests")


@pytest.fixture(scope="module")
def pooling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """The same servers with a pooling model."""
    folder = tmp_path_factory.mktemp("pooling")
    real = start_real(folder, f"127.50.{BLOCK}.3", "--runner=pooling")
    simulated = start_simulated(folder, f"127.50.{BLOCK}.4", "--runner=pooling")
    try:
        yield real.wait(_STARTS_IN), simulated.wait(60)
    finally:
        real.stop()
        simulated.stop()


def test_status_and_keys_of_every_answer_of_a_pooling_model_are_the_same(
    pooling: tuple[Server, Server], record_property: Callable[[str, object], None]
):
    assert different(POOLING, pooling) == {}
    record_property("figures", f"{len(POOLING)} requests")


def families(text: str) -> dict[str, str]:
    found = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    return {name: kind for name, kind in found.items() if name.startswith("vllm:")}


def labels(text: str, name: str) -> set[str]:
    series = re.findall(rf"^{re.escape(name)}(?:_bucket)?\{{([^}}]*)\}}", text, re.MULTILINE)
    return {key for one in series for key in re.findall(r'(\w+)="', one)}


def test_every_metric_of_the_simulated_engine_is_one_of_the_real_one(
    servers: tuple[Server, Server],
):
    for server in servers:  # so that series with labels are there
        assert server.post("/v1/completions", {"prompt": "x", "model": "sql"})[0] == 200
    real, simulated = (server.metrics() for server in servers)
    ours = families(simulated)
    ours = {name: kind for name, kind in ours.items() if not name.startswith(DEVELOPERS)}
    assert ours == {name: kind for name, kind in families(real).items() if name in ours}
    for name in ours:
        if name != METRICS.cache_info:  # a label for every cache setting of the platform
            assert labels(simulated, name) <= labels(real, name), name


def test_every_metric_that_the_platform_uses_is_exported_by_the_real_engine(real: Server):
    text = real.metrics()
    for pattern in METRICS.stored():
        assert re.search(rf"^(?:# TYPE )?{pattern}[ {{]", text, re.MULTILINE), pattern
    assert "gpu_cache_usage_perc" not in text
    assert {"block_size", "num_gpu_blocks"} <= labels(text, METRICS.cache_info or "")
    assert labels(text, METRICS.adapters or "") == {
        "max_lora",
        "running_lora_adapters",
        "waiting_lora_adapters",
    }


def test_an_adapter_is_loaded_answers_and_goes_on_both(
    servers: tuple[Server, Server], tmp_path: Path
):
    path = write_adapter(tmp_path / "new")
    for server in servers:
        body = {"lora_name": "new", "lora_path": str(path)}
        assert server.post("/v1/load_lora_adapter", body)[0] == 200
        assert server.post("/v1/load_lora_adapter", body)[0] == 400
        status, answer = server.post("/v1/completions", {"model": "new", "prompt": "x"})
        assert (status, answer["model"]) == (200, "new")
        assert server.post("/v1/unload_lora_adapter", {"lora_name": "new"})[0] == 200
        assert server.post("/v1/completions", {"model": "new", "prompt": "x"})[0] == 404


def bad_adapters(folder: Path) -> dict[str, Path]:
    """Adapters that cannot be loaded, by what is wrong with them."""
    made = {name: write_adapter(folder / name) for name in ("corrupt", "no weights", "no config")}
    (made["corrupt"] / "adapter_model.safetensors").write_text("rubbish")
    (made["no weights"] / "adapter_model.safetensors").unlink()
    (made["no config"] / "adapter_config.json").unlink()
    return {**made, "rank": write_adapter(folder / "rank", rank=64)}


@pytest.mark.parametrize("wrong", ["corrupt", "no weights", "no config", "rank"])
def test_an_adapter_that_cannot_be_loaded_is_refused_alike(
    wrong: str, servers: tuple[Server, Server], tmp_path: Path
):
    body = {"lora_name": "bad", "lora_path": str(bad_adapters(tmp_path)[wrong])}
    (real, said), (simulated, repeated) = (s.post("/v1/load_lora_adapter", body) for s in servers)
    assert (simulated, repeated["error"]["type"]) == (real, said["error"]["type"])
    if wrong in ("corrupt", "rank"):
        assert repeated["error"]["message"] == said["error"]["message"]


def test_an_adapter_changes_what_the_real_model_says(real: Server):
    body = {"prompt": "inference", "max_tokens": 12, "temperature": 0, "ignore_eos": True}
    said = {
        real.post("/v1/completions", {**body, "model": name})[1]["choices"][0]["text"]
        for name in (MODEL, "sql", "support")
    }
    assert len(said) == 3


def test_on_sigterm_without_a_shutdown_timeout_no_open_stream_is_finished(real: Server):
    """The last of this file: the server does not come back.

    What the client sees is a race: an error in an event, or nothing until it goes.
    """
    connection = http.client.HTTPConnection(real.address, 8000, timeout=8)
    try:
        body = {"prompt": "x", "max_tokens": 900, "ignore_eos": True, "stream": True}
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        assert answer.readline().startswith(b"data: ")
        real.process.terminate()
        came: list[bytes] = []
        with suppress(TimeoutError, http.client.IncompleteRead, ConnectionError):
            while line := answer.readline():
                came.append(line)
        assert not any(b'"finish_reason":"length"' in line for line in came)
    finally:
        connection.close()
