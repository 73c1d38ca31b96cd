"""What the simulated engine answers for a pooling model: embeddings, scores, rankings."""

import base64
import struct
from typing import Any

import pytest

from simulator.engine.engine import Engine
from simulator.tests.unit.engine.support import deployment, serve
from simulator.tests.unit.engine.test_api import post

MODEL = "Qwen/Qwen3-Embedding-0.6B"
SHORTER = ("--hf-overrides", '{"is_matryoshka": true}')


def ask(path: str, *flags: str, **body: Any) -> tuple[int, Any]:
    made = deployment("--runner", "pooling", *flags, model=MODEL)
    return post(made, path, body)


def test_an_embedding_is_a_unit_vector_and_the_model_answers_no_text():
    status, body = ask("/v1/embeddings", *SHORTER, input=["one", "two"], dimensions=32)
    assert status == 200
    assert [len(entry["embedding"]) for entry in body["data"]] == [32, 32]
    assert sum(value * value for value in body["data"][0]["embedding"]) == pytest.approx(1)
    assert body["data"][0]["embedding"] != body["data"][1]["embedding"]
    assert ask("/v1/completions", prompt="x")[0] == 404


def test_a_model_without_matryoshka_embeddings_has_one_width():
    status, body = ask("/v1/embeddings", input="one", dimensions=32)
    assert status == 400
    assert "does not support Matryoshka embeddings" in body["error"]["message"]


def test_an_encoded_embedding_has_the_same_numbers():
    numbers = ask("/v1/embeddings", input="one")[1]["data"][0]["embedding"]
    text = ask("/v1/embeddings", input="one", encoding_format="base64")[1]["data"][0]["embedding"]
    decoded = struct.unpack(f"<{len(numbers)}f", base64.b64decode(text))
    assert decoded == pytest.approx(numbers, abs=1e-6)


def test_documents_are_ranked_by_the_words_they_share_with_the_query():
    documents = ["blue skies over lakes", "what a batch waits for", "a batch in a queue"]
    body = ask("/rerank", query="what does a batch wait for", documents=documents, top_n=2)[1]
    assert [each["index"] for each in body["results"]] == [1, 2]
    assert body["results"][0]["document"]["text"] == documents[1]
    assert body["results"][0]["relevance_score"] > body["results"][1]["relevance_score"]


def test_a_text_is_as_similar_to_itself_as_can_be():
    body = ask("/score", text_1="a batch", text_2=["a batch", "rain"])[1]
    same, other = (each["score"] for each in body["data"])
    assert same == pytest.approx(1)
    assert other < 0.5


def test_a_full_queue_turns_all_texts_of_a_request_away():
    flags = ("--runner", "pooling", "--max-num-queued-reqs", "1")

    async def use(client: Any, engine: Engine) -> tuple[int, Any, int]:
        answer = await client.post("/v1/embeddings", json={"input": ["one", "two"]})
        return answer.status, await answer.json(), engine.unfinished

    status, body, unfinished = serve(deployment(*flags, model=MODEL), use)
    assert status == 503
    assert "cannot accept new requests" in body["error"]["message"]
    assert unfinished == 0


@pytest.mark.parametrize("path", ["/v1/embeddings", "/score", "/rerank"])
def test_a_dead_engine_answers_with_an_error(path: str):
    async def use(client: Any, engine: Engine) -> tuple[int, str]:
        engine.die()
        body = {"input": "a", "text_1": "a", "text_2": "b", "query": "a", "documents": ["b"]}
        answer = await client.post(path, json=body)
        return answer.status, (await answer.json())["error"]["message"]

    status, message = serve(deployment("--runner", "pooling", model=MODEL), use)
    assert status == 500
    assert message.startswith("EngineCore encountered an issue")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"text_1": ["a", "b"], "text_2": ["c", "d", "e"]}, "1:1, 1:N or N:N"),
        ({"text_1": [], "text_2": []}, "At least one text element"),
        ({"text_1": "a", "text_2": []}, "At least one text_pair element"),
    ],
)
def test_texts_that_make_no_pairs_are_refused(body: Any, problem: str):
    status, answer = ask("/score", **body)
    assert status == 400
    assert problem in answer["error"]["message"]
