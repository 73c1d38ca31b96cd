"""LoRA adapters: listed, loaded, unloaded, asked for by name."""

from pathlib import Path
from typing import Any

import pytest

from simulator.engine.engine import AdapterSlots, Engine
from simulator.tests.unit.engine.support import MODEL, deployment, serve
from twin.engines.real.tiny_model import write_adapter

LORA = ("--enable-lora", "--max-loras", "2", "--lora-modules", "sql=/adapters/sql")
RUNTIME = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "true"}


def test_adapters_are_models_with_a_parent():
    async def use(client: Any, _engine: Engine) -> Any:
        return (await (await client.get("/v1/models")).json())["data"]

    base, adapter = serve(deployment(*LORA), use)
    assert (base["id"], base["parent"], base["max_model_len"]) == (MODEL, None, 131072)
    assert (adapter["id"], adapter["parent"], adapter["root"]) == ("sql", MODEL, "/adapters/sql")


def test_an_adapter_can_be_loaded_used_and_unloaded_at_run_time(tmp_path: Path):
    path = write_adapter(tmp_path / "support")

    async def use(client: Any, _engine: Engine) -> list[Any]:
        ask = {"model": "support", "prompt": "x", "max_tokens": 2}
        load = {"lora_name": "support", "lora_path": str(path)}
        out = [(await client.post("/v1/completions", json=ask)).status]
        answer = await client.post("/v1/load_lora_adapter", json=load)
        out += [answer.status, await answer.text()]
        out.append((await client.post("/v1/completions", json=ask)).status)
        out.append((await client.post("/v1/load_lora_adapter", json=load)).status)
        name = {"lora_name": "support"}
        out.append((await client.post("/v1/unload_lora_adapter", json=name)).status)
        out.append((await client.post("/v1/completions", json=ask)).status)
        out.append((await client.post("/v1/unload_lora_adapter", json=name)).status)
        return out

    success = "Success: LoRA adapter 'support' added successfully."
    made = deployment(*LORA, **RUNTIME)
    assert serve(made, use) == [404, 200, success, 200, 400, 200, 404, 404]


def break_weights(folder: Path) -> None:
    (folder / "adapter_model.safetensors").write_text("rubbish")


def cut_weights(folder: Path) -> None:
    file = folder / "adapter_model.safetensors"
    file.write_bytes(file.read_bytes()[:-10])


def remove_weights(folder: Path) -> None:
    (folder / "adapter_model.safetensors").unlink()


def break_config(folder: Path) -> None:
    (folder / "adapter_config.json").write_text("{}")


def remove_config(folder: Path) -> None:
    (folder / "adapter_config.json").unlink()


@pytest.mark.parametrize(
    ("harm", "rank", "status", "words"),
    [
        (remove_config, 8, 404, "No adapter found for"),
        (break_config, 8, 500, "KeyError: 'r'"),
        (lambda _folder: None, 64, 500, "LoRA rank 64 is greater than max_lora_rank 16."),
        (break_weights, 8, 500, "deserializing header: header too small"),
        (cut_weights, 8, 500, "deserializing header: incomplete metadata"),
        (remove_weights, 8, 500, "doesn't contain tensors"),
    ],
)
def test_an_adapter_that_cannot_be_loaded_is_refused_as_vllm_does(
    harm: Any, rank: int, status: int, words: str, tmp_path: Path
):
    folder = write_adapter(tmp_path / "new", rank=rank)
    harm(folder)

    async def use(client: Any, _engine: Engine) -> tuple[int, Any, int]:
        body = {"lora_name": "new", "lora_path": str(folder)}
        answer = await client.post("/v1/load_lora_adapter", json=body)
        ask = {"model": "new", "prompt": "x"}
        asked = await client.post("/v1/completions", json=ask)
        return answer.status, await answer.json(), asked.status

    found, body, asked = serve(deployment(*LORA, **RUNTIME), use)
    assert (found, asked) == (status, 404)
    assert words in body["error"]["message"]


def test_without_the_variable_there_is_no_loading():
    async def use(client: Any, _engine: Engine) -> int:
        return (await client.post("/v1/load_lora_adapter", json={})).status

    assert serve(deployment(*LORA), use) == 404


def test_an_adapter_cannot_take_the_models_name():
    async def use(client: Any, _engine: Engine) -> Any:
        body = {"lora_name": MODEL, "lora_path": "/x"}
        return await (await client.post("/v1/load_lora_adapter", json=body)).json()

    error = serve(deployment(*LORA, **RUNTIME), use)["error"]
    assert error["type"] == "InvalidUserInput"
    assert "conflicts with a served base model" in error["message"]


def test_the_first_use_of_an_adapter_costs_its_loading():
    slots = AdapterSlots(deployment(*LORA))
    first = slots.load(["sql"])
    assert first > 0
    assert slots.load(["sql"]) == 0


def test_the_least_recently_used_adapter_leaves_its_slot():
    slots = AdapterSlots(deployment(*LORA, "--max-cpu-loras", "4"))
    cold = slots.load(["a"])
    slots.load(["b"])
    slots.load(["c"])
    assert slots.load(["b"]) == 0
    assert 0 < slots.load(["a"]) < cold  # still in host memory
    assert slots.load(["b"]) == 0


def test_running_adapters_are_in_the_metrics_after_the_first_request():
    async def use(client: Any, _engine: Engine) -> str:
        before = await (await client.get("/metrics")).text()
        assert "vllm:lora_requests_info{" not in before
        await client.post("/v1/completions", json={"model": "sql", "prompt": "x", "max_tokens": 1})
        return await (await client.get("/metrics")).text()

    text = serve(deployment(*LORA), use)
    assert 'vllm:lora_requests_info{max_lora="2",running_lora_adapters=""' in text
