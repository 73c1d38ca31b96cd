"""Which replica is real, and its command line."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from twin.cluster.agent.launch import plan
from twin.cluster.agent.launching import real_engine
from twin.cluster.agent.launching.hardware import NodeHardware
from twin.cluster.agent.launching.place import Place
from twin.cluster.agent.launching.volumes import Mount
from twin.engines.real import arguments, install
from twin.engines.real.tiny_model import byte_symbols, write_adapter, write_model
from twin.host.paths import TwinPaths
from twin.toolchain import ToolError
from twin.world.rules import Rules

ARGV = ["--model=gs://b/llama-3.1-8b", "--served-model-name=llama-3.1-8b", "--port=8000"]


def pod(uid: str = "u1") -> dict[str, Any]:
    return {"metadata": {"name": f"pod-{uid}", "uid": uid}, "status": {"podIP": "127.64.0.9"}}


@pytest.fixture
def paths(tmp_path: Path) -> TwinPaths:
    found = TwinPaths(tmp_path / "twin")
    found.create()
    return found


def runs(paths: TwinPaths, uid: str) -> None:
    (paths.clusters / "c" / "pods" / "default" / uid).mkdir(parents=True)


def test_no_replica_is_real_unless_somebody_asked(paths: TwinPaths):
    assert not real_engine.is_chosen(paths.root, pod(), ARGV)


def test_one_replica_of_the_named_model_is_real(paths: TwinPaths):
    real_engine.ask_for(paths, "llama-3.1-8b")
    runs(paths, "u1")
    assert real_engine.is_chosen(paths.root, pod("u1"), ARGV)
    assert real_engine.is_chosen(paths.root, pod("u1"), ARGV), "again after a restart"
    assert not real_engine.is_chosen(paths.root, pod("u2"), ARGV)


def test_replicas_of_other_models_stay_simulated(paths: TwinPaths):
    real_engine.ask_for(paths, "gemma")
    assert not real_engine.is_chosen(paths.root, pod(), ARGV)


def test_when_the_real_replica_is_gone_the_next_one_that_starts_is_real(paths: TwinPaths):
    real_engine.ask_for(paths, "llama-3.1-8b")
    runs(paths, "u1")
    assert real_engine.is_chosen(paths.root, pod("u1"), ARGV)
    (paths.clusters / "c" / "pods" / "default" / "u1").rmdir()
    assert real_engine.is_chosen(paths.root, pod("u2"), ARGV)


def test_the_place_is_free_before_a_replica_starts_and_after_it_is_gone(paths: TwinPaths):
    assert real_engine.replica(paths) is None
    real_engine.ask_for(paths, "llama-3.1-8b")
    assert real_engine.replica(paths) is None
    runs(paths, "u1")
    real_engine.is_chosen(paths.root, pod("u1"), ARGV)
    assert real_engine.replica(paths) == "pod-u1"
    (paths.clusters / "c" / "pods" / "default" / "u1").rmdir()
    assert real_engine.replica(paths) is None


def test_nobody_asks_any_more(paths: TwinPaths):
    real_engine.ask_for(paths, "llama-3.1-8b")
    real_engine.ask_for(paths, None)
    assert not real_engine.is_chosen(paths.root, pod(), ARGV)


def adapt(*flags: str) -> list[str]:
    return arguments.adapt(
        [*ARGV, *flags],
        model=Path("/tiny"),
        address="127.64.0.9",
        adapter=lambda name, _path: Path("/adapters") / name,
    )


def test_only_what_the_hardware_forces_is_replaced():
    found = adapt(
        "--tensor-parallel-size=4",
        "--gpu-memory-utilization=0.9",
        "--no-enable-log-requests",
        "--load-format=runai_streamer",
        '--model-loader-extra-config={"distributed":true}',
        "--enable-prefix-caching",
        "--kv-cache-dtype=fp8",
        "--max-num-seqs=64",
    )
    assert found == [
        "--model=/tiny",
        "--host=127.64.0.9",
        "--dtype=float32",
        "--served-model-name=llama-3.1-8b",
        "--port=8000",
        "--no-enable-log-requests",
        "--enable-prefix-caching",
        "--max-num-seqs=64",
    ]


def test_adapters_keep_their_names_and_get_folders_of_this_machine():
    found = adapt("--enable-lora", "--lora-modules", "sql=/mnt/sql", '{"name":"a","path":"/mnt/a"}')
    assert found[-3:-1] == ["--lora-modules", "sql=/adapters/sql"]
    assert json.loads(found[-1]) == {"name": "a", "path": "/adapters/a"}


def test_a_model_given_without_a_flag_is_served_under_its_name():
    found = arguments.adapt(
        ["m-8b", "--port=1"], model=Path("/t"), address="a", adapter=lambda _n, p: Path(p)
    )
    assert "--served-model-name=m-8b" in found
    assert arguments.served_names(["m-8b", "--port=1"]) == ["m-8b"]
    assert arguments.served_names(["m", "--served-model-name", "a", "b"]) == ["a", "b"]


def test_a_context_longer_than_the_tiny_models_is_cut():
    assert "--max-model-len=131072" in adapt("--max-model-len=1000000")
    assert "--max-model-len=8192" in adapt("--max-model-len=8192")


def test_every_forced_flag_is_one_of_vllms():
    known = arguments.flag_table()["flags"]
    assert set(arguments.FORCED) <= set(known)


def test_without_an_installation_the_pod_says_what_to_run(
    paths: TwinPaths, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("GKE_INFERENCE_TOOLS", str(tmp_path / "none" / "tools"))
    real_engine.ask_for(paths, "llama-3.1-8b")
    place = Place(
        {**pod(), "spec": {}},
        NodeHardware("gpu", "nvidia-l4", 1),
        [Mount("/mnt", tmp_path, read_only=True)],
        {},
        tmp_path / "kubeconfig",
        Rules(),
        Path,
        root=paths.root,
    )
    container = {"name": "vllm", "image": "vllm/vllm-openai:1", "args": ARGV}
    with pytest.raises(ToolError, match="run `gke-inference tools --with vllm`"):
        plan(container, place)
    assert not install.is_installed()


def test_a_full_disk_is_told_before_anything_is_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("GKE_INFERENCE_TOOLS", str(tmp_path / "tools"))
    larger = dataclasses.replace(install.VLLM, disk_gib=10**9)
    with pytest.raises(ToolError, match="GiB of disk"):
        larger.install(lambda _doing: None)


def read_tensors(file: Path) -> tuple[dict[str, Any], int]:
    raw = file.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + size]), len(raw) - 8 - size


def test_the_tiny_model_is_the_same_each_time_and_whole(tmp_path: Path):
    first, second = (write_model(tmp_path / name) for name in "ab")
    assert (first / "model.safetensors").read_bytes() == (second / "model.safetensors").read_bytes()
    header, size = read_tensors(first / "model.safetensors")
    tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
    assert max(entry["data_offsets"][1] for entry in tensors.values()) == size
    config = json.loads((first / "config.json").read_text())
    embeddings = tensors["model.embed_tokens.weight"]["shape"]
    assert embeddings == [config["vocab_size"], config["hidden_size"]]
    vocabulary = json.loads((first / "tokenizer.json").read_text())["model"]["vocab"]
    assert len(vocabulary) == config["vocab_size"]


def test_adapters_of_different_seeds_differ_and_say_their_rank(tmp_path: Path):
    one, other = (
        write_adapter(tmp_path / "1", rank=4, seed=1),
        write_adapter(tmp_path / "2", seed=2),
    )
    assert json.loads((one / "adapter_config.json").read_text())["r"] == 4
    sizes = [read_tensors(each / "adapter_model.safetensors")[1] for each in (one, other)]
    assert sizes[0] * 2 == sizes[1], "rank 4 and rank 8"


def test_every_byte_has_a_symbol_of_its_own():
    symbols = byte_symbols()
    assert len(set(symbols)) == 256
    assert symbols[ord("a")] == "a"
    assert symbols[ord(" ")] == "Ġ"
