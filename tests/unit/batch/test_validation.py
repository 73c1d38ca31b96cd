"""Validation of the input of a batch, and its distribution to workers."""

import json
from typing import Any, cast

import pytest

from workloads.batch.settings import Model
from workloads.batch.validation import Bounds, check

CHAT = "/v1/chat/completions"
BOUNDS = Bounds(
    endpoint=CHAT,
    models={"llama": Model((CHAT,)), "embed": Model(("/v1/embeddings",))},
    max_lines=100,
    shard_bytes=10_000,
    shard_lines=3,
)


def line(number: int, **changes: Any) -> bytes:
    request = {"custom_id": f"r{number}", "method": "POST", "url": CHAT, "body": {"model": "llama"}}
    return json.dumps({**request, **changes}).encode() + b"\n"


def bounds(**changes: Any) -> Bounds:
    return Bounds(**{**BOUNDS.__dict__, **changes})


@pytest.mark.parametrize(
    ("changes", "code", "param"),
    [
        ({"custom_id": ""}, "missing_required_parameter", "custom_id"),
        ({"custom_id": 7}, "missing_required_parameter", "custom_id"),
        ({"method": "GET"}, "invalid_method", "method"),
        ({"url": "/v1/embeddings"}, "invalid_url", "url"),
        ({"body": []}, "missing_required_parameter", "body"),
        ({"body": {}}, "missing_required_parameter", "model"),
        ({"body": {"model": "gpt"}}, "model_not_found", "model"),
        ({"body": {"model": "embed"}}, "model_not_supported", "model"),
        ({"body": {"model": "llama", "stream": True}}, "invalid_request", "stream"),
    ],
)
def test_a_wrong_line_is_an_error_with_its_number(
    changes: dict[str, Any], code: str, param: str
) -> None:
    (error,) = check([line(1), b"\n", line(2, **changes)], BOUNDS).errors
    assert (error["code"], error["param"], error["line"]) == (code, param, 3)
    assert error["message"].endswith(".")


@pytest.mark.parametrize(
    ("changes", "code", "param"),
    [
        ({"background": True}, "invalid_request", "background"),
        ({"conversation": "conv_1"}, "invalid_request", "conversation"),
        ({"previous_response_id": "resp_1"}, "invalid_request", "previous_response_id"),
        ({"input": None}, "missing_required_parameter", "input"),
    ],
)
def test_a_response_that_needs_a_store_is_an_error(
    changes: dict[str, Any], code: str, param: str
) -> None:
    responses = bounds(endpoint="/v1/responses", models={"llama": Model(("/v1/responses",))})
    good = {"model": "llama", "input": "Hi", "background": False}
    lines = [
        line(at, url="/v1/responses", body=body)
        for at, body in enumerate((good, {**good, **changes}))
    ]
    (error,) = check(lines, responses).errors
    assert (error["code"], error["param"], error["line"]) == (code, param, 2)


@pytest.mark.parametrize("prompt", [[1, 2], [[1, 2], [3]], [], ["a", 1], ""])
def test_a_prompt_that_the_picker_cannot_read_is_an_error_before_the_batch_runs(
    prompt: Any,
) -> None:
    path = "/v1/completions"
    texts = {"model": "llama", "prompt": ["a", "b"]}
    lines = [
        line(at, url=path, body={**texts, **more})
        for at, more in enumerate(({}, {"prompt": prompt}))
    ]
    gateway = bounds(endpoint=path, models={"llama": Model((path,))})
    (error,) = check(lines, gateway).errors
    assert (error["code"], error["param"], error["line"]) == ("invalid_request", "prompt", 2)
    own = bounds(endpoint=path, models={"llama": Model((path,), engine="own")})
    assert check(lines, own).errors == []


DEEP = b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}\n"


@pytest.mark.parametrize("raw", [b"{\n", b"[1]\n", b"\xff\n", b"[" * 100_000 + b"\n", DEEP])
def test_a_line_that_is_no_object_is_an_error(raw: bytes) -> None:
    (error,) = check([raw], BOUNDS).errors
    assert (error["code"], error["line"]) == ("invalid_json_line", 1)


def test_a_request_may_have_a_hundred_levels() -> None:
    deep: Any = []
    for _ in range(97):
        deep = cast("Any", [deep])
    assert not check([line(1, body={"model": "llama", "x": deep})], BOUNDS).errors


def test_a_line_longer_than_the_gate_takes_is_an_error() -> None:
    large = line(1, body={"model": "llama", "text": "x" * (8 * 2**20)})
    assert [each["code"] for each in check([large], BOUNDS).errors] == ["request_too_large"]


def test_no_custom_id_is_used_twice_whatever_characters_it_has() -> None:
    odd = "\ud800"
    found = check([line(1, custom_id=odd), line(2), line(3, custom_id=odd)], BOUNDS)
    assert [(each["code"], each["line"]) for each in found.errors] == [("duplicate_custom_id", 3)]


def test_an_input_without_requests_and_one_with_too_many_are_refused() -> None:
    assert [each["code"] for each in check([b"\n", b" \n"], BOUNDS).errors] == ["empty_file"]
    many = check((line(number) for number in range(101)), BOUNDS)
    assert [each["code"] for each in many.errors] == ["too_many_requests"]
    assert not check((line(number) for number in range(100)), BOUNDS).errors


def embeds(number: int, given: Any) -> bytes:
    body = {"model": "embed", "input": given}
    return line(number, url="/v1/embeddings", body=body)


def test_embeddings_have_at_most_2048_inputs_a_request_and_50000_a_batch() -> None:
    embedding = bounds(endpoint="/v1/embeddings", shard_bytes=10**9)
    fits = [embeds(n, ["a"] * 2048) for n in range(24)]
    tokens = embeds(24, [7] * 9000)
    assert not check([*fits, tokens], embedding).errors
    (error,) = check([embeds(1, ["a"] * 2049)], embedding).errors
    assert (error["code"], error["param"], error["line"]) == ("invalid_request", "input", 1)
    (error,) = check([*fits, tokens, embeds(25, [[1, 2]] * 900)], embedding).errors
    assert (error["code"], error["param"]) == ("too_many_inputs", "input")


def test_errors_are_listed_up_to_a_hundred() -> None:
    found = check([b"{\n"] * 150, bounds(max_lines=200))
    assert len(found.errors) == 100


def test_shards_are_the_whole_input_in_order_and_skip_blank_lines() -> None:
    lines = [b"\n", *(line(number) for number in range(4)), b"\n", *(line(n) for n in (4, 5, 6))]
    raw = b"".join(lines)
    found = check(lines, BOUNDS)
    assert found.total == 7
    assert [shard.lines for shard in found.shards] == [3, 3, 1]
    seen: list[tuple[int, str]] = []
    for shard in found.shards:
        piece = raw[shard.start : shard.end].split(b"\n")
        for number, text in enumerate(piece, start=shard.first):
            if text.strip():
                seen.append((number, json.loads(text)["custom_id"]))
    assert seen == [(2, "r0"), (3, "r1"), (4, "r2"), (5, "r3"), (7, "r4"), (8, "r5"), (9, "r6")]


def test_a_shard_ends_before_it_is_too_large() -> None:
    large = [line(number, body={"model": "llama", "text": "x" * 4000}) for number in range(5)]
    found = check(large, bounds(shard_lines=100))
    assert [shard.lines for shard in found.shards] == [3, 2]
