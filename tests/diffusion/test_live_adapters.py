"""Adapters that come, change and go while the server runs: real weights of a tiny model."""

import os
import shutil

import pytest

from tests.diffusion.conftest import run
from tests.diffusion.test_real_pipeline import ask
from twin.host.paths import REPOSITORY

# tests/diffusion/personal serves a live adapter; twin/tests/running/gateway has the routing
pytestmark = [
    pytest.mark.needs_tools,
    pytest.mark.soak,
    pytest.mark.needs_diffusion,
    pytest.mark.timeout(1800),
]


def test_a_live_adapter_is_served_replaced_and_forgotten_without_a_restart(start, tiny, tmp_path):
    run("-m", "diffusion", "tiny", tmp_path / "other", "--adapter", "first", "--adapter", "second")
    made = tmp_path / "other" / "adapters"
    live = tmp_path / "live"
    server = start(adapters={}, live_adapters=str(live), live_rank=8, max_batch=1).ready()
    assert server.ask(prompt="x", model="alice")[0] == 404
    live.mkdir()
    shutil.copytree(made / "first", live / "alice")
    plain, first = ask(server)[0], ask(server, model="alice")[0]
    assert abs(first - plain).mean() > 1
    assert (
        first == ask(start(adapters={"alice": str(made / "first")}).ready(), model="alice")
    ).all()
    shutil.rmtree(live / "alice")
    shutil.copytree(made / "second", live / "alice")
    assert abs(ask(server, model="alice")[0] - first).mean() > 1
    shutil.rmtree(live / "alice")
    assert server.ask(prompt="x", model="alice")[0] == 404
    server.until(lambda: "adapter alice is gone" in server.log.read_text())
    assert server.get("/health")[0] == 200


def test_a_live_adapter_that_does_not_fit_is_refused_and_costs_nothing(start, tmp_path):
    live = tmp_path / "live"
    script = REPOSITORY / "tests/diffusion/write_adapters.py"
    run(script, live)
    server = start(
        adapters={}, live_adapters=str(live), live_rank=3, adapter_slots=1, max_batch=1
    ).ready()
    before = ask(server, model="good")[0]
    messages = {name: server.ask(prompt="x", model=name) for name in ("flat", "wide")}
    assert {name: answer[0] for name, answer in messages.items()} == {"flat": 400, "wide": 400}
    assert "must have two matrices" in messages["flat"][1]["error"]["message"]
    assert "must have at most rank 3, got 4" in messages["wide"][1]["error"]["message"]
    # "good" is still on the chip: what is in its file now could not be read
    file = live / "good" / "pytorch_lora_weights.safetensors"
    state = file.stat()
    file.write_bytes(bytes(state.st_size))
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert (ask(server, model="good")[0] == before).all()
    assert "ended" not in server.log.read_text()
