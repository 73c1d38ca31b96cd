"""The simulated Triton with TensorRT-LLM, against its OpenAI front end at v2.70.0."""

from pathlib import Path
from typing import Any

import pytest

from simulator.dialects import triton
from simulator.engine.settings import EngineError
from simulator.tests.unit.dialects.support import CHAT, ON_H100, asked, events, value

MODEL = "llama-3.1-8b"


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    for name in (MODEL, "preprocessing", "tensorrt_llm", "postprocessing"):
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "config.pbtxt").write_text("max_batch_size: 64\n")
    return [
        f"--model-repository={tmp_path}/models",
        f"--tokenizer={tmp_path}/{MODEL}/tokenizer",
        "--backend=tensorrtllm",
        "--host=0.0.0.0",
        "--openai-port=8000",
    ]


def chat(**fields: Any) -> tuple[str, Any]:
    return "/v1/chat/completions", {"model": MODEL, "messages": CHAT, **fields}


def test_an_answer_is_16_tokens_long_unless_it_is_asked_for_more(arguments: list[str]):
    found = asked("triton", arguments, chat(), chat(max_tokens=30))
    assert [body["usage"]["completion_tokens"] for _, body in found] == [16, 30]
    assert {body["choices"][0]["finish_reason"] for _, body in found} == {"stop"}


def test_a_stream_begins_with_the_role_and_ends_with_stop(arguments: list[str]):
    ((_, text),) = asked("triton", arguments, chat(stream=True))
    first, *_, last = events(text)
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert last["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("fields", "status", "detail"),
    [
        ({"model": "gpt-9"}, 400, "Unknown model: gpt-9"),
        ({"n": 2}, 400, "Received n=2, but only single choice (n=1) is currently supported"),
        (
            {"logprobs": True},
            400,
            "logprobs are currently available only for the vLLM backend",
        ),
        (
            {"guided_json": {}},
            422,
            [
                {
                    "type": "extra_forbidden",
                    "loc": ["body", "guided_json"],
                    "msg": "Extra inputs are not permitted",
                    "input": {},
                }
            ],
        ),
    ],
)
def test_what_it_refuses_is_a_detail(arguments: list[str], fields: Any, status: int, detail: Any):
    assert asked("triton", arguments, chat(**fields)) == [(status, {"detail": detail})]


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("best_of", "two", "extra_forbidden"),  # of completions only
        ("frequency_penalty", "hot", "float_parsing"),
        ("functions", [{}], "missing"),
        ("ignore_eos", "hot", "bool_parsing"),
        ("logit_bias", [], "dict_type"),
        ("logprobs", {}, "bool_type"),
        ("max_completion_tokens", "many", "int_parsing"),
        ("max_tokens", -1, "greater_than_equal"),
        ("max_tokens", [], "int_type"),
        ("messages", [], "too_short"),
        ("messages", ["hello"], "model_attributes_type"),
        ("messages", [{"content": "hello"}], "missing"),
        ("messages", "hello", "list_type"),
        ("min_tokens", 1.5, "int_from_float"),
        ("model", [1], "string_type"),
        ("n", "two", "int_parsing"),
        ("presence_penalty", {}, "float_type"),
        ("response_format", "json", "model_attributes_type"),
        ("seed", "x", "int_parsing"),
        ("stop", 5, "string_type"),
        ("stream", [], "bool_type"),
        ("stream_options", "usage", "model_attributes_type"),
        ("temperature", "hot", "float_parsing"),
        ("temperature", 3, "less_than_equal"),
        ("tool_choice", 5, "literal_error"),
        ("tools", [{"type": "function"}], "missing"),
        ("top_logprobs", "x", "int_parsing"),
        ("top_p", {}, "float_type"),
    ],
)
def test_a_field_of_the_wrong_type_is_fastapis_422(
    arguments: list[str], name: str, value: Any, kind: str
):
    ((status, body),) = asked("triton", arguments, chat(**{name: value}))
    assert status == 422
    first = body["detail"][0]
    assert (first["type"], first["loc"][:2]) == (kind, ["body", name])


@pytest.mark.parametrize(
    ("path", "name", "value"),
    [
        ("completions", "best_of", "two"),
        ("completions", "logprobs", 6),
        ("completions", "n", 0),
        ("completions", "prompt", 5),
        ("completions", "suffix", 5),
        ("embeddings", "dimensions", "x"),
        ("embeddings", "input", 5),
        ("embeddings", "model", {}),
    ],
)
def test_other_routes_check_types_too(arguments: list[str], path: str, name: str, value: Any):
    needed = {"input": "text"} if path == "embeddings" else {"prompt": "text"}
    ((status, body),) = asked(
        "triton", arguments, (f"/v1/{path}", {"model": MODEL, **needed, name: value})
    )
    assert (status, body["detail"][0]["loc"][1]) == (422, name)


def test_a_number_in_quotes_is_a_number(arguments: list[str]):
    ((_, body),) = asked("triton", arguments, chat(max_tokens="30"))
    assert body["usage"]["completion_tokens"] == 30


def test_every_model_of_the_repository_is_listed(arguments: list[str]):
    ((_, body),) = asked("triton", arguments, "/v1/models")
    assert [card["id"] for card in body["data"]] == [
        MODEL,
        "postprocessing",
        "preprocessing",
        "tensorrt_llm",
    ]


def test_metrics_are_those_of_the_batch_manager(arguments: list[str]):
    _, _, (_, page), ready = asked(
        "triton", arguments, chat(), chat(model="gpt-9"), "/metrics", "/health/ready"
    )
    waiting = '{model="tensorrt_llm",request_type="waiting",version="1"}'
    share = '{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"}'
    most = '{model="tensorrt_llm",request_type="max",version="1"}'
    assert value(page, f"nv_trt_llm_request_metrics{waiting}") == 0
    assert value(page, f"nv_trt_llm_request_metrics{most}") == 64
    assert value(page, f"nv_trt_llm_kv_cache_block_metrics{share}") == 0
    assert value(page, f'nv_inference_request_success{{model="{MODEL}",version="1"}}') == 1
    assert ready[0] == 200


def test_a_repository_that_is_not_there_ends_it():
    with pytest.raises(EngineError, match="failed to stat file /nowhere"):
        triton.settle(["--model-repository=/nowhere"], ON_H100)


@pytest.mark.parametrize("flag", ["default-max-tokens", "openai-port"])
def test_a_value_of_the_wrong_type_ends_it_with_argparses_message(
    arguments: list[str], flag: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        triton.settle([*arguments, f"--{flag}=many"], ON_H100)
    assert ended.value.code == 2
    said = f"main.py: error: argument --{flag}: invalid int value: 'many'\n"
    assert capsys.readouterr().err == said
