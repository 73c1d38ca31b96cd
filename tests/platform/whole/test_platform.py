"""The whole platform on a twin of its own, as a user goes through it; the order matters."""

import json
import os
import signal
from typing import Any

import openai
import pytest
import testinfra

from scripts.operate.load import trace_of
from scripts.shared.engine import Engine
from scripts.shared.leftovers import leftovers
from scripts.shared.model_client import models, stream_chat
from twin.host import processes
from twin.world import store
from twin.world.scenario import find, load

pytestmark = pytest.mark.needs_tools


def count(platform) -> int:
    return len(store.list_resources(platform.paths))


def endpoint(platform) -> str:
    return platform.engine.outputs("local")["endpoint"]


def test_an_engine_killed_in_the_middle_of_up_is_finished_by_the_next_up(platform):
    platform.engine.ensure_stack("local")
    killed = platform.kill_when(
        lambda: 6 <= count(platform) <= 30, "up", "--yes", "--skip-preview", "-s", "local"
    )
    assert killed
    answer = platform.cli("up", "--stack", "local")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "Traceback" not in answer.stdout + answer.stderr


def test_up_says_what_runs_where_on_which_rung_at_what_price(platform):
    answer = platform.cli("status", "--stack", "local")
    assert answer.returncode == 0, answer.stderr
    line = next(row for row in answer.stdout.splitlines() if "llama-3-1-8b-tpu" in row)
    assert "ready" in line
    assert "tpu-v6e 2x2 reservation" in line
    assert float(line.split()[-1]) > 1


def test_the_gateways_address_is_written_to_a_file_and_listens(platform):
    host: Any = testinfra.get_host("local://")
    file = host.file(str(platform.paths.root.parent / "local" / "endpoint"))
    assert file.content_string.strip() == endpoint(platform)
    address = endpoint(platform).removeprefix("http://")
    assert address.startswith("127.")
    assert host.socket(f"tcp://{address}").is_listening


def test_the_gateway_lists_every_model_and_adapter_of_the_stack(platform):
    assert set(models(endpoint(platform))) == {"llama-3.1-8b", "sql", "support"}


def test_the_openai_client_streams_an_answer_with_usage(platform):
    client = openai.OpenAI(base_url=f"{endpoint(platform)}/v1", api_key="none", max_retries=0)
    stream = client.chat.completions.create(
        model="llama-3.1-8b",
        messages=[{"role": "user", "content": "Hello"}],
        max_tokens=8,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text.strip()
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.completion_tokens == 8


def test_an_adapter_answers_under_its_own_name(platform):
    assert stream_chat(endpoint(platform), "sql", "select").text


def test_an_unknown_model_is_an_openai_error(platform):
    client = openai.OpenAI(base_url=f"{endpoint(platform)}/v1", api_key="none", max_retries=0)
    with pytest.raises(openai.NotFoundError) as refused:
        client.chat.completions.create(model="gpt-9", messages=[{"role": "user", "content": "x"}])
    assert "gpt-9" in refused.value.message


def test_a_second_up_changes_nothing(platform):
    answer = platform.pulumi("up", "--yes", "--skip-preview", "--expect-no-changes", "-s", "local")
    assert answer.returncode == 0, answer.stdout


def test_a_refresh_finds_no_drift(platform):
    answer = platform.pulumi(
        "refresh", "--yes", "--skip-preview", "--expect-no-changes", "-s", "local"
    )
    assert answer.returncode == 0, answer.stdout


def test_a_twin_that_was_killed_is_repaired_by_up(platform):
    killed = processes.running(platform.paths)
    assert len(killed) > 6
    for pid in killed.values():
        os.kill(pid, signal.SIGKILL)
    answer = platform.cli("up", "--stack", "local")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    platform.engine = Engine(platform.paths)
    platform.environment.update(platform.engine.environment)
    assert stream_chat(endpoint(platform), "llama-3.1-8b", "Still there?").text


def test_a_tpu_stock_out_is_survived_and_work_moves_back(platform):
    answer = platform.cli("up", "--stack", "local", "--scenario", "tpu-stockout", timeout=900)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    for word in ("stockout", "nvidia-l4", "tpu-v6e"):
        assert word in answer.stdout.lower().replace("stock-out", "stockout"), word
    drawn = (platform.paths.root.parent / "local" / "timeline.svg").read_text()
    assert "<svg" in drawn


def test_a_burst_scales_out_to_the_next_rung_and_in_again_and_loses_nothing(platform):
    answer = platform.cli("up", "--stack", "local", "--scenario", "burst", timeout=1500)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    folder = platform.paths.root.parent / "local"
    counted = json.loads((folder / "traffic.json").read_text())
    traffic = load(find("burst")).traffic
    assert traffic is not None
    sent = len(trace_of(traffic, "llama-3.1-8b").asks)
    assert sent > 500
    whole = [counted[word] for word in ("sent", "answered", "refused", "lost")]
    assert whole == [sent, sent, 0, 0]
    assert "of 150 s: " in answer.stdout  # who waits is told how far it is
    who = "".join(line for line in answer.stdout.splitlines() if " by llama-3-1-8b-" in line)
    assert who.count("llama-3-1-8b-tpu-") == 2
    # the picker sends the small replica little, and by chance nothing: that it stood ready counts
    assert " ready on nvidia-l4 " in answer.stdout
    curves = (folder / "load.svg").read_text()
    assert "llama-3-1-8b-gpu ready" in curves
    assert "in the batch" in curves
    left = platform.cli("status", "--stack", "local").stdout
    assert left.count(" ready ") == 1
    assert "llama-3-1-8b-gpu" not in left


def test_a_destroy_interrupted_at_three_points_leaves_nothing_when_it_is_run_again(platform):
    whole = count(platform)
    for share in (0.9, 0.6, 0.3):
        platform.kill_when(
            lambda share=share: count(platform) <= share * whole,
            "destroy",
            "--yes",
            "--skip-preview",
            "-s",
            "local",
        )
        platform.engine.ensure_stack("local")
    answer = platform.cli("down")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "Nothing is left in the cloud." in answer.stdout
    assert not platform.paths.root.exists()
    assert leftovers(platform.paths) == []
    assert processes.running(platform.paths) == {}
