"""The simulated TGI, against what its source at v3.3.7 says."""

import asyncio
from typing import Any

import pytest

from simulator.dialects import tgi
from simulator.engine.settings import EngineError
from simulator.tests.unit.dialects.support import CHAT, ON_H100, asked, events, served, value

MODEL = "/mnt/models/llama-3.1-8b"
ARGUMENTS = [
    f"--model-id={MODEL}",
    "--port=8000",
    "--num-shard=1",
    "--max-total-tokens=1024",
    "--max-input-tokens=1023",
    "--cuda-memory-fraction=0.9",
    "--json-output",
]


def chat(**fields: Any) -> tuple[str, Any]:
    return "/v1/chat/completions", {"model": "llama-3.1-8b", "messages": CHAT, **fields}


def test_a_chat_has_no_id_and_tgis_fingerprint():
    ((status, body),) = asked("tgi", ARGUMENTS, chat(max_tokens=12))
    assert status == 200
    assert (body["id"], body["system_fingerprint"]) == ("", "3.3.7-native")
    assert body["model"] == "llama-3.1-8b"
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] == 12


def test_a_stream_has_the_role_in_every_event():
    ((_, text),) = asked(
        "tgi", ARGUMENTS, chat(max_tokens=4, stream=True, stream_options={"include_usage": True})
    )
    *parts, usage = events(text)
    assert [part["choices"][0]["delta"]["role"] for part in parts] == ["assistant"] * 4
    assert [part["choices"][0]["finish_reason"] for part in parts] == [None, None, None, "length"]
    assert usage["usage"]["completion_tokens"] == 4


def test_models_are_named_by_the_path_that_was_loaded():
    ((_, body),) = asked("tgi", ARGUMENTS, "/v1/models")
    assert [entry["id"] for entry in body["data"]] == [MODEL]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"max_tokens": 2000},
            "`inputs` tokens + `max_new_tokens` must be <= 1024. Given: 14 `inputs` tokens and "
            "1024 `max_new_tokens`",
        ),
        ({"max_tokens": 0}, "`max_new_tokens` must be strictly positive"),
        ({"top_p": 1.0}, "`top_p` must be > 0.0 and < 1.0"),
        ({"stop": list("abcde")}, "`stop` supports up to 4 stop sequences. Given: 5"),
    ],
)
def test_what_validation_finds_is_422(fields: Any, message: str):
    expected = {"error": f"Input validation error: {message}", "error_type": "validation"}
    assert asked("tgi", ARGUMENTS, chat(**fields)) == [(422, expected)]


def test_what_is_wrong_with_a_streamed_request_is_an_event_with_status_200():
    ((status, text),) = asked("tgi", ARGUMENTS, chat(max_tokens=0, stream=True))
    assert status == 200
    message = "Input validation error: `max_new_tokens` must be strictly positive"
    assert events(text) == [{"error": {"message": message, "http_status_code": 422}}]


def test_a_stop_that_is_one_text_is_of_the_wrong_form():
    ((status, text),) = asked("tgi", ARGUMENTS, chat(stop="x"))
    assert status == 422
    assert text.startswith("Failed to deserialize the JSON body into the target type: stop:")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("frequency_penalty", "hot", 'invalid type: string "hot", expected f32'),
        ("logit_bias", {}, "invalid type: map, expected a sequence"),
        ("logprobs", 1, "invalid type: integer `1`, expected a boolean"),
        ("max_completion_tokens", "2", 'invalid type: string "2", expected u32'),
        ("max_tokens", "2", 'invalid type: string "2", expected u32'),
        ("max_tokens", -1, "invalid value: integer `-1`, expected u32"),
        ("max_tokens", 1.5, "invalid type: floating point `1.5`, expected u32"),
        ("messages", "hello", 'invalid type: string "hello", expected a sequence'),
        ("model", [], "invalid type: sequence, expected a string"),
        ("n", "2", 'invalid type: string "2", expected u32'),
        ("presence_penalty", True, "invalid type: boolean `true`, expected f32"),
        ("seed", 2**64, f"invalid value: integer `{2**64}`, expected u64"),
        ("stream", None, "invalid type: null, expected a boolean"),
        ("stream_options", 5, "invalid type: integer `5`, expected struct StreamOptions"),
        ("temperature", "hot", 'invalid type: string "hot", expected f32'),
        ("tools", {}, "invalid type: map, expected a sequence"),
        ("top_logprobs", "2", 'invalid type: string "2", expected u32'),
        ("top_p", {}, "invalid type: map, expected f32"),
    ],
)
def test_a_field_of_the_wrong_type_is_serdes_422(name: str, value: Any, said: str):
    before = "Failed to deserialize the JSON body into the target type: "
    assert asked("tgi", ARGUMENTS, chat(**{name: value})) == [(422, f"{before}{name}: {said}")]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"stop": ["x", 5]}, "stop[1]: invalid type: integer `5`, expected a string"),
        (
            {"stream_options": {"include_usage": "yes"}},
            'stream_options.include_usage: invalid type: string "yes", expected a boolean',
        ),
        (
            {"messages": ["hello"]},
            'messages[0]: invalid type: string "hello", expected struct Message',
        ),
        ({"messages": [{"content": "x"}]}, "messages[0]: missing field `role`"),
        (
            {"messages": [{"role": "user", "content": [5]}]},
            "messages[0]: data did not match any variant of untagged enum MessageBody",
        ),
    ],
)
def test_what_is_inside_a_field_is_checked_too(fields: Any, said: str):
    ((status, text),) = asked("tgi", ARGUMENTS, chat(**fields))
    assert (status, text.partition("type: ")[2]) == (422, said)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": 5}),
        ("/v1/completions", {"prompt": "x", "repetition_penalty": "hot"}),
        ("/v1/completions", {"prompt": "x", "suffix": 5}),
    ],
)
def test_completions_check_types_too(path: str, body: Any):
    ((status, text),) = asked("tgi", ARGUMENTS, (path, body))
    assert status == 422
    assert text.startswith("Failed to deserialize the JSON body into the target type: ")


def test_more_than_its_concurrent_requests_are_429():
    async def use(client: Any, _engine: Any) -> list[int]:
        path, body = chat(max_tokens=100)
        answers = await asyncio.gather(*(client.post(path, json=body) for _ in range(3)))
        return sorted(answer.status for answer in answers)

    assert served("tgi", [*ARGUMENTS, "--max-concurrent-requests=2"], use) == [200, 200, 429]


def test_metrics_have_no_series_before_the_first_request():
    before, _, after = asked("tgi", ARGUMENTS, "/metrics", chat(max_tokens=12), "/metrics")
    assert "tgi_queue_size" not in before[1]
    page = after[1]
    assert value(page, "tgi_queue_size") == 0
    assert value(page, "tgi_batch_current_size") == 0
    assert value(page, "tgi_request_success") == 1
    assert value(page, "tgi_request_duration_count") == 1
    assert value(page, "tgi_request_generated_tokens_sum") == 12


def test_a_client_that_disconnects_is_a_dropped_request():
    async def use(client: Any, engine: Any) -> str:
        engine.abort(engine.submit([1, 2, 3], ("a", "b"), 2))
        return await (await client.get("/metrics")).text()

    page = served("tgi", ARGUMENTS, use)
    assert value(page, 'tgi_request_failure{err="dropped"}') == 1


def test_unknown_flags_end_it_with_claps_message(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        tgi.settle([*ARGUMENTS, "--tp-size=2"], ON_H100)
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: unexpected argument '--tp-size' found\n")


@pytest.mark.parametrize(
    ("flag", "value", "problem"),
    [
        ("cuda-memory-fraction", "high", "invalid float literal"),
        ("max-batch-size", "many", "invalid digit found in string"),
        ("max-concurrent-requests", "-1", "invalid digit found in string"),
        ("max-input-tokens", "", "cannot parse integer from empty string"),
        ("max-stop-sequences", "1.5", "invalid digit found in string"),
        ("max-total-tokens", str(2**64), "number too large to fit in target type"),
        ("num-shard", "two", "invalid digit found in string"),
        ("port", "70000", "70000 is not in 0..=65535"),
    ],
)
def test_a_value_of_the_wrong_type_ends_it_with_claps_message(
    flag: str, value: str, problem: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit) as ended:
        tgi.settle([*ARGUMENTS, f"--{flag}={value}"], ON_H100)
    assert ended.value.code == 2
    name = flag.upper().replace("-", "_")
    said = f"error: invalid value '{value}' for '--{flag} <{name}>': {problem}\n"
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize("value", ["1.5", "nan", "-1"])
def test_a_share_of_memory_that_is_none_ends_it(value: str):
    with pytest.raises(EngineError, match="Invalid fraction value"):
        tgi.settle([*ARGUMENTS, f"--cuda-memory-fraction={value}"], ON_H100)


def test_an_image_is_refused_and_not_ignored():
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    messages = [{"role": "user", "content": [image]}]
    ((status, body),) = asked("tgi", ARGUMENTS, chat(messages=messages))
    assert status == 400
    assert "image_url in messages is not available" in body["error"]


def test_it_reads_no_n():
    ((_, body),) = asked("tgi", ARGUMENTS, chat(max_tokens=4, n=3))
    assert len(body["choices"]) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("logprobs", True),
        ("response_format", {"type": "json", "value": {"properties": {}}}),
        ("tools", [{"type": "function", "function": {"name": "book", "parameters": {}}}]),
        ("top_logprobs", 2),
    ],
)
def test_what_is_not_simulated_is_refused_and_not_ignored(name: str, value: Any):
    ((status, body),) = asked("tgi", ARGUMENTS, chat(**{name: value}))
    assert status == 400
    assert body["error"] == f"{name} is not available on a simulated engine."
