"""The simulated SGLang, against what the wheel of 0.5.23 says."""

import asyncio
from typing import Any

import pytest

from simulator.dialects import sglang
from simulator.engine.request import Request
from simulator.engine.settings import EngineError
from simulator.tests.unit.dialects.support import CHAT, ON_H100, asked, events, served, value

MODEL = "llama-3.1-8b"
ARGUMENTS = [
    f"--model-path=/mnt/models/{MODEL}",
    f"--served-model-name={MODEL}",
    "--port=8000",
    "--tp-size=1",
    "--context-length=1024",
    "--mem-fraction-static=0.9",
    "--enable-metrics",
]
ADAPTERS = ["--enable-lora", "--max-lora-rank=16", "--lora-paths", "sql=/mnt/a", "legal=/mnt/b"]
LABELS = f'{{model_name="{MODEL}",engine_type="unified",tp_rank="0",pp_rank="0",moe_ep_rank="0"}}'
TOLD = f'{{model_name="{MODEL}",engine_type="unified",is_streaming="false"}}'


def request(most: int) -> Request:
    tokens = list(range(most))
    return Request(str(most), tokens[:8] or [0], most, 0.0, output=tokens, tell_at=1)


def chat(**fields: Any) -> tuple[str, Any]:
    return "/v1/chat/completions", {"model": MODEL, "messages": CHAT, **fields}


def test_a_chat_has_the_keys_of_sglangs_answer():
    ((status, body),) = asked("sglang", ARGUMENTS, chat(max_tokens=12))
    assert status == 200
    assert sorted(body) == ["choices", "created", "id", "metadata", "model", "object", "usage"]
    (choice,) = body["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["matched_stop"] is None
    assert sorted(choice["message"]) == ["content", "reasoning_content", "role"]
    assert body["usage"]["completion_tokens"] == 12
    assert body["usage"]["reasoning_tokens"] == 0


def test_a_stream_has_role_text_reason_and_usage_in_events_of_their_own():
    ((_, text),) = asked(
        "sglang",
        ARGUMENTS,
        chat(max_tokens=5, stream=True, stream_options={"include_usage": True}),
    )
    first, *parts, last, usage = events(text)
    assert first["choices"][0]["delta"] == {
        "reasoning_content": None,
        "role": "assistant",
        "content": "",
    }
    assert len(parts) == 5
    assert last["choices"][0] == {
        "index": 0,
        "delta": {"reasoning_content": None},
        "logprobs": None,
        "finish_reason": "length",
        "matched_stop": None,
    }
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 5


def test_any_name_of_a_model_is_answered_by_the_base_model():
    ((status, body),) = asked("sglang", ARGUMENTS, chat(model="gpt-9", max_tokens=12))
    assert (status, body["model"]) == (200, "gpt-9")


def test_an_adapter_is_asked_for_behind_the_name_of_its_model():
    found = asked(
        "sglang",
        [*ARGUMENTS, *ADAPTERS],
        chat(model=f"{MODEL}:sql", max_tokens=8),
        chat(model=f"{MODEL}:other", max_tokens=8),
        "/v1/models",
    )
    assert [status for status, _ in found] == [200, 400, 200]
    assert found[1][1] == {
        "object": "error",
        "message": "Got LoRA adapter that has never been loaded: other\n"
        "All loaded adapters: dict_keys(['sql', 'legal']).",
        "type": "BadRequest",
        "param": None,
        "code": 400,
    }
    cards = [(card["id"], card["parent"]) for card in found[2][1]["data"]]
    assert cards == [(MODEL, None), ("sql", MODEL), ("legal", MODEL)]


def test_adapters_that_were_not_enabled_are_refused():
    ((status, body),) = asked("sglang", ARGUMENTS, chat(model=f"{MODEL}:sql"))
    assert status == 400
    assert body["message"].startswith("LoRA adapter 'sql' was requested, but LoRA is not enabled.")


@pytest.mark.parametrize(
    ("fields", "kind", "message"),
    [
        ({"messages": []}, "BadRequestError", "Messages cannot be empty."),
        (
            {"max_tokens": 5000},
            "BadRequest",
            "Requested token count exceeds the model's maximum context length of 1024 tokens.",
        ),
        (
            {"messages": [{"role": "user", "content": "word " * 3000}]},
            "BadRequest",
            "The input (3009 tokens) is longer than the model's context length (1024 tokens).",
        ),
    ],
)
def test_bad_requests_are_refused_in_sglangs_words(fields: Any, kind: str, message: str):
    ((status, body),) = asked("sglang", ARGUMENTS, chat(**fields))
    assert (status, body["type"]) == (400, kind)
    assert body["message"].startswith(message)


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("frequency_penalty", "hot", "float_parsing"),
        ("ignore_eos", None, "bool_type"),
        ("logit_bias", [], "dict_type"),
        ("logprobs", [1], "bool_type"),
        ("lora_path", 5, "list_type"),
        ("max_completion_tokens", "many", "int_parsing"),
        ("max_tokens", [], "int_type"),
        ("messages", "hello", "list_type"),
        ("min_tokens", "x", "int_parsing"),
        ("model", [1], "string_type"),
        ("n", "two", "int_parsing"),
        ("presence_penalty", {}, "float_type"),
        ("priority", "x", "int_parsing"),
        ("regex", [1], "string_type"),
        ("response_format", [1], "model_attributes_type"),
        ("seed", "x", "int_parsing"),
        ("stop", 5, "string_type"),
        ("stream", "maybe", "bool_parsing"),
        ("stream_options", "usage", "model_attributes_type"),
        ("temperature", "hot", "float_parsing"),
        ("tool_choice", 5, "literal_error"),
        ("tools", [{"type": "function"}], "missing"),
        ("top_logprobs", "x", "int_parsing"),
        ("top_p", {}, "float_type"),
    ],
)
def test_a_field_of_the_wrong_type_is_400_with_fastapis_words(name: str, value: Any, kind: str):
    ((status, body),) = asked("sglang", ARGUMENTS, chat(**{name: value}))
    assert (status, body["type"], body["param"]) == (400, "Bad Request", None)
    found = f"{{'type': '{kind}', 'loc': ('body', '{name}'"
    assert body["message"].partition(":\n  ")[2].startswith(found)


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/completions", {}),
        ("/v1/completions", {"prompt": 5}),
        ("/v1/completions", {"prompt": "x", "best_of": "two"}),
        ("/v1/completions", {"prompt": "x", "max_tokens": None}),
        ("/v1/completions", {"prompt": "x", "suffix": 5}),
        ("/v1/embeddings", {"input": "x", "dimensions": "many"}),
        ("/tokenize", {"prompt": 5}),
        ("/load_lora_adapter", {"lora_name": [1], "lora_path": "/mnt/a"}),
        ("/unload_lora_adapter", {}),
    ],
)
def test_other_routes_check_types_too(path: str, fields: Any):
    ((status, body),) = asked("sglang", [*ARGUMENTS, *ADAPTERS], (path, fields))
    assert status == 400
    assert "validation error" in body["message"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("response_format", {"type": "structural_tag"}),
        ("ebnf", "root ::= x"),
        ("n", 0),
        ("regex", "[a-z]+"),
    ],
)
def test_what_is_not_simulated_is_refused_and_not_ignored(name: str, value: Any):
    ((status, body),) = asked("sglang", ARGUMENTS, chat(**{name: value}))
    assert (status, body["param"]) == (400, name)
    assert "not available on a simulated engine" in body["message"]


def test_health_takes_a_second_however_well_the_server_is():
    async def use(client: Any, _engine: Any) -> tuple[int, float]:
        began = asyncio.get_running_loop().time()
        answer = await client.get("/health")
        return answer.status, asyncio.get_running_loop().time() - began

    status, seconds = served("sglang", ARGUMENTS, use)
    assert status == 200
    assert seconds >= 1


def test_a_full_queue_is_refused():
    async def use(client: Any, _engine: Any) -> list[int]:
        path, body = chat(max_tokens=400, ignore_eos=True)
        answers = await asyncio.gather(*(client.post(path, json=body) for _ in range(4)))
        return sorted(answer.status for answer in answers)

    flags = [*ARGUMENTS, "--max-running-requests=1", "--max-queued-requests=2"]
    assert served("sglang", flags, use) == [200, 200, 200, 503]  # one runs, two wait


def test_metrics_have_the_names_and_labels_that_pickers_and_dashboards_read():
    (_, (_, page)) = asked("sglang", ARGUMENTS, chat(max_tokens=12), "/metrics")
    assert value(page, f"sglang:num_queue_reqs{LABELS}") == 0
    assert value(page, f"sglang:num_running_reqs{LABELS}") == 0
    assert value(page, f"sglang:token_usage{LABELS}") == 0
    assert value(page, f"sglang:generation_tokens_total{TOLD}") == 12
    assert value(page, f"sglang:num_requests_total{TOLD}") == 1
    assert value(page, f"sglang:e2e_request_latency_seconds_count{TOLD}") == 1
    assert value(page, f"sglang:context_len{LABELS}") == 1024
    assert value(page, f"sglang:page_size{LABELS}") == 1


def test_without_its_flag_there_are_no_metrics():
    flags = [flag for flag in ARGUMENTS if flag != "--enable-metrics"]
    assert asked("sglang", flags, "/metrics") == [(404, {"detail": "Not Found"})]


def test_gauges_are_as_old_as_the_last_prefill_or_fortieth_decode_step():
    engine, _server = sglang.make(sglang.settle(ARGUMENTS, ON_H100))
    core, page = engine.core, engine.metrics

    def run(until: Any) -> float:
        while not until():
            core.advance(core.next_event() or 0.0)
        return value(page.render(), f"sglang:num_running_reqs{LABELS}")

    long, short = (request(most) for most in (200, 3))
    core.submit(long, 0.0)
    assert run(lambda: long.generated) == 1
    core.submit(short, core.next_event() or 0.0)
    assert run(lambda: short.finished) == 2  # and one runs
    assert run(lambda: long.generated > 45) == 1
    assert run(lambda: long.finished) == 0


def test_unknown_flags_end_it_with_argparses_message(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        sglang.settle([*ARGUMENTS, "--max-model-len=4096"], ON_H100)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "launch_server.py: error: unrecognized arguments: --max-model-len=4096" in said


def test_flags_with_a_wrong_value_end_it(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        sglang.settle([*ARGUMENTS, "--page-size=many"], ON_H100)
    assert "argument --page-size: invalid int value: 'many'" in capsys.readouterr().err


def test_a_model_without_room_for_its_cache_does_not_start():
    flags = ["--model-path=llama-3.1-70b", "--tp-size=2", "--mem-fraction-static=0.8"]
    with pytest.raises(EngineError, match="Not enough memory"):
        sglang.settle(flags, ON_H100 | {"GKE_INFERENCE_SIM_CHIPS": "2"})


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        (["--context-length=131073"], r"ValueError: .* \(131073\) is greater than .* \(131072\)"),
        (["--page-size=64", "--chunked-prefill-size=100"], "must be divisible by page_size"),
        (["--enable-lora", "--max-lora-rank=16"], "specify both --max-lora-rank and --lora-target"),
        (["--served-model-name=a:b"], "cannot contain a colon .*Invalid value: 'a:b'"),
    ],
)
def test_what_the_real_server_refuses_before_it_loads_a_model_ends_it(
    flags: list[str], problem: str
):
    with pytest.raises(EngineError, match=problem):
        sglang.settle([*ARGUMENTS, *flags], ON_H100)


def test_a_longer_context_is_possible_with_sglangs_own_variable():
    given = ON_H100 | {"SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"}
    settled = sglang.settle([*ARGUMENTS, "--context-length=131073"], given)
    assert settled.deployment.max_model_len == 131073


def test_chunks_may_be_smaller_than_the_number_of_requests_and_off():
    small = sglang.settle([*ARGUMENTS, "--chunked-prefill-size=128"], ON_H100).deployment
    assert small.max_batched_tokens == 128
    assert sglang.settle([*ARGUMENTS, "--chunked-prefill-size=-1"], ON_H100)


def test_a_server_does_not_start_with_lmcache():
    with pytest.raises(EngineError, match="No module named 'lmcache'"):
        sglang.settle([*ARGUMENTS, "--enable-lmcache"], ON_H100)


def test_a_context_beyond_the_cache_starts_and_refuses_long_prompts():
    flags = ["--model-path=llama-3.1-8b", "--mem-fraction-static=0.25", "--context-length=131072"]
    settings = sglang.settle(flags, ON_H100)
    assert settings.deployment.max_model_len == 131072
    assert settings.longest_request < 131071


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("{lora_name: sql}", "json.decoder.JSONDecodeError: Expecting property name"),
        ('{"lora_name": "sql"}', "AssertionError: .* looks like a JSON str"),
    ],
)
def test_an_adapter_that_is_no_json_ends_it_with_sglangs_error(word: str, problem: str):
    with pytest.raises(EngineError, match=problem):
        sglang.settle([*ARGUMENTS, "--lora-paths", word], ON_H100)


@pytest.mark.parametrize(
    ("flag", "kind"),
    [
        ("chunked-prefill-size", "int"),
        ("context-length", "int"),
        ("decode-log-interval", "int"),
        ("max-queued-requests", "int"),
        ("max-running-requests", "int"),
        ("mem-fraction-static", "float"),
        ("page-size", "int"),
        ("tp-size", "int"),
    ],
)
def test_a_value_of_the_wrong_type_ends_it_with_argparses_message(
    flag: str, kind: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        sglang.settle([*ARGUMENTS, f"--{flag}=many"], ON_H100)
    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert f"--{flag}" in said
    assert said.endswith(f"invalid {kind} value: 'many'")


def test_a_choice_of_numbers_is_a_choice(capsys: pytest.CaptureFixture[str]):
    sglang.settle([*ARGUMENTS, "--max-lora-chunk-size=32"], ON_H100)
    with pytest.raises(SystemExit):
        sglang.settle([*ARGUMENTS, "--max-lora-chunk-size=33"], ON_H100)
    assert "invalid choice: '33'" in capsys.readouterr().err


def test_an_image_is_refused_and_not_ignored():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    messages = [{"role": "user", "content": [image]}]
    ((status, body),) = asked("sglang", ARGUMENTS, chat(messages=messages))
    assert status == 400
    assert "image_url in messages is not available" in body["message"]
