"""The OpenAI API of the simulated engine."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp.test_utils import TestServer
from openai import AsyncOpenAI, NotFoundError

from simulator.engine.engine import Engine
from simulator.server.server import ApiServer
from simulator.tests.unit.engine.support import MODEL, ReplayClock, deployment, serve
from twin.host.ports import free_port

CHAT = {"messages": [{"role": "user", "content": "How does a batch work?"}]}


def post(made: Any, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    async def use(client: Any, _engine: Engine) -> tuple[int, Any]:
        data = body if isinstance(body, str | bytes) else json.dumps(body)
        answer = await client.post(path, data=data, headers=headers)
        text = await answer.text()
        return answer.status, json.loads(text) if text.startswith("{") else text

    return serve(made, use)


def test_a_completion_has_as_many_tokens_as_its_usage_says():
    status, body = post(
        deployment(), "/v1/completions", {"prompt": "Tell me more", "max_tokens": 20}
    )
    assert status == 200
    assert body["object"] == "text_completion"
    assert body["choices"][0]["finish_reason"] == "length"
    assert body["choices"][0]["text"].startswith("This is a simulated answer of llama-3.1-8b:")
    assert body["usage"]["completion_tokens"] == 20
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + 20


def headers_of(body: Any, **headers: str) -> dict[str, str]:
    async def use(client: Any, _engine: Engine) -> dict[str, str]:
        answer = await client.post("/v1/chat/completions", json={**CHAT, **body}, headers=headers)
        await answer.read()
        return {name.lower(): value for name, value in answer.headers.items()}

    return serve(deployment(), use)


def test_a_response_names_the_server_of_vllm():
    assert headers_of({})["server"] == "uvicorn"
    assert headers_of({"stream": True})["server"] == "uvicorn"
    assert headers_of({"messages": 7})["server"] == "uvicorn"


@pytest.mark.parametrize(
    ("kind", "report"),
    [
        (
            "TEXT",
            "TEXT named_metrics.kv_cache_usage_perc=0.0, named_metrics.num_requests_waiting=0.0",
        ),
        (
            "json",
            'JSON {"named_metrics": {"kv_cache_usage_perc": 0.0, "num_requests_waiting": 0.0}}',
        ),
        ("BIN", None),
    ],
)
def test_whoever_asks_for_the_load_of_the_replica_gets_it_with_a_whole_answer(kind, report):
    asked = {"endpoint-load-metrics-format": kind}
    assert headers_of({}, **asked).get("endpoint-load-metrics") == report
    assert "endpoint-load-metrics" not in headers_of({})
    assert "endpoint-load-metrics" not in headers_of({"stream": True}, **asked)


def test_the_same_prompt_gets_the_same_answer():
    first, second = (post(deployment(), "/v1/chat/completions", CHAT)[1] for _ in range(2))
    assert first["choices"] == second["choices"]
    assert first["choices"][0]["finish_reason"] == "stop"


def test_a_stream_carries_role_text_reason_and_usage():
    async def use(client: Any, _engine: Engine) -> list[str]:
        body = {
            **CHAT,
            "stream": True,
            "max_tokens": 12,
            "stream_options": {"include_usage": True},
        }
        answer = await client.post("/v1/chat/completions", json=body)
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        assert answer.headers["x-gke-inference-pod"] == "pod-1"
        return (await answer.text()).strip().split("\n\n")

    lines = serve(deployment(), use)
    assert lines[-1] == "data: [DONE]"
    events = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert events[-2]["choices"][0]["finish_reason"] == "length"
    assert events[-1]["choices"] == []
    assert events[-1]["usage"]["completion_tokens"] == 12
    text = "".join(event["choices"][0]["delta"]["content"] for event in events[:-1])
    whole = post(deployment(), "/v1/chat/completions", {**CHAT, "max_tokens": 12})[1]
    assert text == whole["choices"][0]["message"]["content"]


def test_a_server_that_forces_usage_reports_that_of_each_choice_with_each_event():
    """vLLM does so since vllm-project/vllm#37923, whatever the request says."""

    async def use(client: Any, engine: Engine) -> list[Any]:
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5, "n": 2}
        body |= {"ignore_eos": True, "stream": True, "stream_options": {"include_usage": False}}
        answer = await client.post("/v1/chat/completions", json=body)
        lines = (await answer.text()).strip().split("\n\n")[:-1]
        return [json.loads(line.removeprefix("data: ")) for line in lines]

    events = serve(deployment("--enable-force-include-usage"), use)
    *parts, last = events
    for choice in (0, 1):
        own = [one["usage"] for one in parts if one["choices"][0]["index"] == choice]
        made = [usage["completion_tokens"] for usage in own]
        assert (made, made[0], made[-1]) == (sorted(made), 0, 5)
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], 10)


def test_the_openai_client_understands_it():
    async def main() -> tuple[list[str], str, str]:
        server = TestServer(ApiServer(Engine(deployment(), ReplayClock())).app)
        async with server:
            client: Any = AsyncOpenAI(base_url=str(server.make_url("/v1")), api_key="none")
            models = [model.id async for model in client.models.list()]
            answer = await client.chat.completions.create(model=MODEL, **CHAT)
            parts = [
                chunk.choices[0].delta.content or ""
                async for chunk in await client.chat.completions.create(
                    model=MODEL, stream=True, **CHAT
                )
            ]
            with pytest.raises(NotFoundError):
                await client.chat.completions.create(model="other", **CHAT)
            await client.close()
            return models, answer.choices[0].message.content, "".join(parts)

    models, whole, streamed = asyncio.run(main())
    assert models == [MODEL]
    assert whole == streamed


def test_a_stop_string_ends_the_text_before_it():
    status, body = post(
        deployment(), "/v1/completions", {"prompt": "x", "max_tokens": 50, "stop": [" answer"]}
    )
    assert status == 200
    choice = body["choices"][0]
    assert (choice["text"], choice["finish_reason"]) == ("This is a simulated", "stop")
    assert choice["stop_reason"] == " answer"


def test_a_text_goes_on_to_its_limit_when_its_end_is_ignored():
    body = {"prompt": "x", "max_tokens": 500, "ignore_eos": True}
    assert post(deployment(), "/v1/completions", body)[1]["usage"]["completion_tokens"] == 500


def test_an_unknown_model_is_not_found_and_the_served_ones_are_named():
    status, body = post(deployment(), "/v1/completions", {"prompt": "x", "model": "gpt-9"})
    assert status == 404
    assert body["error"] == {
        "message": "The model `gpt-9` does not exist. Valid aliases: llama-3.1-8b.",
        "type": "NotFoundError",
        "param": "model",
        "code": 404,
    }


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("{not json", "json_invalid"),
        ("[]", "valid dictionary"),
        ({"max_tokens": 3}, "prompt must be a text"),
        ({"prompt": ""}, "prompt cannot be empty"),
        ({"prompt": "x", "max_tokens": 0}, "max_tokens must be at least 1"),
        ({"prompt": "x", "temperature": -1}, "temperature must be between"),
        ({"prompt": "x", "n": 0}, "n must be at least 1, got 0."),
        ({"prompt": "x", "n": 16385}, "n must be at most 16384, got 16385."),
        ({"prompt": "x", "n": 2, "temperature": 0}, "n must be 1 when using greedy sampling"),
        ({"prompt": "x", "use_beam_search": True}, "use_beam_search is not available"),
        ({"prompt": []}, "at least one prompt"),
        ({"prompt": "x", "stop": 5}, "'loc': ('body', 'stop', 'str')"),
        ({"prompt": "x", "stream_options": {"include_usage": True}}, "stream=True"),
        ({"prompt": ["a", ""]}, "prompt cannot be empty"),
    ],
)
def test_a_bad_request_is_refused_with_a_reason(body: Any, problem: str):
    status, answer = post(deployment(), "/v1/completions", body)
    assert status == 400
    assert problem in answer["error"]["message"]
    assert answer["error"]["code"] == 400


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("echo", "maybe", "bool_parsing"),
        ("frequency_penalty", "hot", "float_parsing"),
        ("ignore_eos", None, "bool_type"),
        ("logit_bias", [], "dict_type"),
        ("logprobs", [1], "bool_type"),
        ("max_completion_tokens", "many", "int_parsing"),
        ("max_tokens", [], "int_type"),
        ("messages", "hello", "list_type"),
        ("min_tokens", "x", "int_parsing"),
        ("model", [1], "string_type"),
        ("n", "two", "int_parsing"),
        ("presence_penalty", {}, "float_type"),
        ("priority", "x", "int_parsing"),
        ("prompt_logprobs", "x", "int_parsing"),
        ("response_format", "json", "model_attributes_type"),
        ("response_format", {"type": "json_schema", "json_schema": {}}, "missing"),
        ("seed", 2**63, "less_than"),
        ("stop", 5, "string_type"),
        ("stream", "maybe", "bool_parsing"),
        ("stream_options", "usage", "model_attributes_type"),
        ("temperature", "hot", "float_parsing"),
        ("tool_choice", 5, "literal_error"),
        ("tools", [{"type": "function"}], "missing"),
        ("tools", [{"function": {}}], "missing"),
        ("top_logprobs", "x", "int_parsing"),
        ("top_p", {}, "float_type"),
        ("use_beam_search", "maybe", "bool_parsing"),
    ],
)
def test_a_field_of_the_wrong_type_is_400_with_fastapis_words(name: str, value: Any, kind: str):
    status, body = post(deployment(), "/v1/chat/completions", {**CHAT, name: value})
    assert (status, body["error"]["type"]) == (400, "Bad Request")
    found = f"{{'type': '{kind}', 'loc': ('body', '{name}'"
    assert body["error"]["message"].partition(":\n  ")[2].startswith(found)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": 5}),
        ("/v1/completions", {"prompt": "x", "logprobs": "many"}),
        ("/v1/completions", {"prompt": "x", "suffix": 5}),
        ("/tokenize", {"prompt": 5}),
        ("/tokenize", {"messages": "hello"}),
    ],
)
def test_other_routes_check_types_too(path: str, body: Any):
    status, answer = post(deployment(), path, body)
    assert status == 400
    assert "validation error" in answer["error"]["message"]


def test_a_number_in_quotes_is_a_number():
    status, body = post(deployment(), "/v1/chat/completions", {**CHAT, "max_tokens": "3"})
    assert (status, body["usage"]["completion_tokens"]) == (200, 3)


@pytest.mark.parametrize("content", [5, [5], [{"type": "text", "text": 5}]])
def test_content_that_is_no_text_is_refused(content: Any):
    messages = [{"role": "user", "content": content}]
    status, body = post(deployment(), "/v1/chat/completions", {"messages": messages})
    assert status == 400
    assert "content must be" in body["error"]["message"]


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
PICTURED = [{"role": "user", "content": [{"type": "text", "text": "What is it?"}, IMAGE]}]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/tokenize"])
def test_an_image_for_a_model_of_text_is_refused_in_vllms_words(path: str):
    status, body = post(deployment(), path, {"messages": PICTURED})
    assert (status, body["error"]["type"]) == (400, "BadRequestError")
    assert body["error"]["message"] == "llama-3.1-8b is not a multimodal model"


@pytest.mark.parametrize(
    "model",
    ["Llama-3.2-11B-Vision-Instruct", "Qwen/Qwen3-VL-4B-Instruct", "gemma-4-12b", "someones-3b"],
)
def test_an_image_for_a_model_that_may_have_vision_is_refused_and_not_ignored(model: str):
    made = deployment(model=model)
    status, body = post(made, "/v1/chat/completions", {"messages": PICTURED})
    assert status == 400
    said = "image_url in messages is not available on a simulated engine."
    assert body["error"]["message"] == said


def test_a_prompt_beyond_the_context_is_refused_in_vllms_words():
    made = deployment("--max-model-len", "64")
    status, body = post(made, "/v1/completions", {"prompt": "word " * 100})
    assert status == 400
    assert "This model's maximum context length is 64 tokens" in body["error"]["message"]


def test_more_output_than_the_context_holds_is_refused():
    made = deployment("--max-model-len", "64")
    status, body = post(made, "/v1/completions", {"prompt": "word", "max_tokens": 64})
    assert status == 400
    assert "is too large: 64" in body["error"]["message"]


@pytest.mark.parametrize("messages", [None, [], [{"content": "x"}], ["hello"]])
def test_messages_without_roles_are_refused(messages: Any):
    status, body = post(deployment(), "/v1/chat/completions", {"messages": messages})
    assert status == 400
    assert "message" in body["error"]["message"]


def test_a_text_model_has_no_embeddings():
    assert post(deployment(), "/v1/embeddings", {"input": "x"})[0] == 404


def test_a_key_is_asked_for_where_one_is_set():
    made = deployment("--api-key", "secret")
    body = {"prompt": "x", "max_tokens": 1}
    assert post(made, "/v1/completions", body)[0] == 401
    assert post(made, "/v1/completions", body, Authorization="Bearer secret")[0] == 200


def test_health_version_and_load_answer():
    async def use(client: Any, _engine: Engine) -> list[Any]:
        health = await client.get("/health")
        version = await client.get("/version")
        load = await client.get("/load")
        return [health.status, await health.text(), await version.json(), await load.json()]

    assert serve(deployment(), use) == [200, "", {"version": "0.32.0"}, {"server_load": 0}]


def test_tokenize_counts_as_completions_do_and_detokenize_returns_the_text():
    asked = {"prompt": "a few words", "return_token_strs": True}
    counted = post(deployment(), "/tokenize", asked)[1]
    body = post(deployment(), "/v1/completions", {"prompt": "a few words", "max_tokens": 1})[1]
    assert counted["count"] == body["usage"]["prompt_tokens"] == len(counted["tokens"])
    assert "".join(counted["token_strs"]) == "a few words"
    assert post(deployment(), "/detokenize", {"tokens": counted["tokens"]})[1] == {
        "prompt": "a few words"
    }


def test_a_full_queue_turns_requests_away_with_503():
    made = deployment("--max-num-queued-reqs", "0")
    status, body = post(made, "/v1/completions", {"prompt": "x"})
    assert status == 503
    assert "cannot accept new requests" in body["error"]["message"]


def test_a_queue_with_room_for_one_of_two_choices_keeps_neither():
    async def use(client: Any, engine: Engine) -> tuple[int, int]:
        body = {"prompt": "x", "n": 2, "max_tokens": 100}
        answer = await client.post("/v1/completions", json=body)
        return answer.status, engine.unfinished

    assert serve(deployment("--max-num-queued-reqs", "1"), use) == (503, 0)


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_goes_away_aborts_its_request(stream: bool):
    """vLLM does so for whole answers, too (entrypoints/serve/utils/api_utils.py)."""

    async def use() -> tuple[int, str]:
        port = free_port()
        engine = Engine(deployment("--port", str(port)), ReplayClock())
        server = ApiServer(engine)
        await server.start()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        fields = {"prompt": "x", "max_tokens": 100_000, "ignore_eos": True, "stream": stream}
        body = json.dumps(fields).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await until(lambda: engine.unfinished == 1)
        writer.close()
        await until(lambda: engine.unfinished == 0)
        left, metrics = engine.unfinished, engine.metrics.render()
        await server.stop()
        return left, metrics

    unfinished, metrics = asyncio.run(use())
    assert unfinished == 0
    labels = '{engine="0",model_name="llama-3.1-8b"}'
    assert f"vllm:prompt_tokens_total{labels} 1.0" in metrics
    assert f"vllm:request_generation_tokens_count{labels} 0.0" in metrics
    assert 'finished_reason="abort",model_name="llama-3.1-8b"} 0.0' in metrics


async def until(is_met: Callable[[], bool]) -> None:
    """Wait for something, five seconds at most."""
    for _ in range(1000):
        if is_met():
            break
        await asyncio.sleep(0.005)


def test_a_request_for_several_choices_gets_different_ones_and_one_usage():
    body = {"prompt": "Tell me more", "max_tokens": 20, "n": 3}
    status, answer = post(deployment(), "/v1/completions", body)
    assert status == 200
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    assert len({choice["text"] for choice in answer["choices"]}) == 3
    assert answer["usage"]["completion_tokens"] == 60
    alone = post(deployment(), "/v1/completions", {**body, "n": 1})[1]
    assert alone["choices"][0]["text"] == answer["choices"][0]["text"]
    assert alone["usage"]["prompt_tokens"] == answer["usage"]["prompt_tokens"]


def test_choices_of_several_prompts_are_numbered_through_and_every_prompt_is_counted():
    body: dict[str, Any] = {"prompt": ["Tell me more", "one"], "max_tokens": 5, "n": 2}
    choices = post(deployment(), "/v1/completions", body)[1]
    alone = [
        post(deployment(), "/v1/completions", {**body, "prompt": prompt})[1]
        for prompt in body["prompt"]
    ]
    assert [choice["index"] for choice in choices["choices"]] == [0, 1, 2, 3]
    said = [choice["text"] for choice in choices["choices"]]
    assert said == [choice["text"] for one in alone for choice in one["choices"]]
    counted = sum(one["usage"]["prompt_tokens"] for one in alone)
    assert choices["usage"]["prompt_tokens"] == counted
    assert choices["usage"]["completion_tokens"] == 20


def test_streamed_choices_carry_their_index_and_one_usage_at_the_end():
    messages: Any = CHAT["messages"]

    async def use(client: Any, _engine: Engine) -> tuple[dict[int, str], Any]:
        async with AsyncOpenAI(base_url=str(client.make_url("/v1")), api_key="-") as api:
            stream = await api.chat.completions.create(
                model=MODEL,
                messages=messages,
                max_tokens=12,
                n=2,
                stream=True,
                stream_options={"include_usage": True},
            )
            parts: dict[int, str] = {0: "", 1: ""}
            usage = None
            async for chunk in stream:
                usage = chunk.usage or usage
                for choice in chunk.choices:
                    parts[choice.index] += choice.delta.content or ""
        return parts, usage

    parts, usage = serve(deployment(), use)
    whole = post(deployment(), "/v1/chat/completions", {**CHAT, "max_tokens": 12, "n": 2})[1]
    expected = {each["index"]: each["message"]["content"] for each in whole["choices"]}
    assert parts == expected
    assert usage.completion_tokens == 24
