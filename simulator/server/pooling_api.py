"""What an engine with a pooling model answers: embeddings, scores and rankings."""

import base64
import json
import struct
import time
import uuid
from functools import partial
from typing import Any

from aiohttp import web

from simulator.engine.engine import Engine
from simulator.server.bodies import fields, vectors
from simulator.server.bodies.asks import check_length, prompt_tokens, read_json, salt_in
from simulator.server.bodies.errors import ApiError
from simulator.server.bodies.json_answers import json_response
from simulator.server.models_api import ServedModels
from simulator.server.submission import ended, queue_all

Json = dict[str, Any]


class Pooling:
    """Handlers of `/v1/embeddings`, `/score` and `/rerank`."""

    def __init__(self, engine: Engine, models: ServedModels) -> None:
        self._engine = engine
        self._models = models
        self._longest = engine.deployment.max_model_len

    def routes(self) -> list[web.RouteDef]:
        """Return the routes; vLLM has those of scores under several paths."""
        return [
            web.post("/v1/embeddings", self._embeddings),
            *(web.post(path, self._score) for path in ("/score", "/v1/score")),
            *(web.post(path, self._rank) for path in ("/rerank", "/v1/rerank", "/v2/rerank")),
        ]

    async def _embeddings(self, http: web.Request) -> web.Response:
        body = fields.checked(fields.VllmEmbedding, await read_json(http))
        model, adapter = self._model_of(body)
        width: int | None = body.get("dimensions")
        if width is not None and not self._has_dimensions():
            said = (
                f"Model '{model}' does not support Matryoshka embeddings; dimensions must be unset "
                f"(received dimensions={width})."
            )
            raise ApiError(400, said)
        prompts = prompt_tokens(body.get("input"), "input")
        await self._run(prompts, adapter, salt_in(body))
        found = [vectors.embedding(prompt, width) for prompt in prompts]
        form = body.get("encoding_format")
        data = [
            {"index": i, "object": "embedding", "embedding": _encoded(vector, form)}
            for i, vector in enumerate(found)
        ]
        return _listed("embd", model, data, sum(map(len, prompts)))

    def _model_of(self, body: Json) -> tuple[str, str | None]:
        try:
            return self._models.resolve(body.get("model"))
        except ApiError as error:  # handlers of pooling models do not name the aliases
            said = f"The model `{body['model']}` does not exist."
            raise ApiError(error.status, said) from error

    def _has_dimensions(self) -> bool:
        """Return whether the model's configuration allows shorter vectors.

        The configuration of a model is not read here; `--hf-overrides` is.
        """
        given = self._engine.deployment.flags.hf_overrides
        overrides: Json = json.loads(given) if isinstance(given, str) else given or {}
        return bool(overrides.get("is_matryoshka") or overrides.get("matryoshka_dimensions"))

    async def _score(self, http: web.Request) -> web.Response:
        body = fields.checked(fields.VllmScore, await read_json(http))
        model, adapter = self._model_of(body)
        first, second = body["text_1"], body["text_2"]
        scores, tokens = await self._scores(first, second, adapter, salt_in(body))
        data = [
            {"index": index, "object": "score", "score": score}
            for index, score in enumerate(scores)
        ]
        return _listed("score", model, data, tokens)

    async def _rank(self, http: web.Request) -> web.Response:
        body = fields.checked(fields.VllmRank, await read_json(http))
        model, adapter = self._model_of(body)
        given: str | list[str] = body["documents"]
        documents = [given] if isinstance(given, str) else given
        scores, tokens = await self._scores(body["query"], documents, adapter, salt_in(body))
        best = sorted(range(len(documents)), key=lambda index: scores[index], reverse=True)
        results = [
            {
                "index": index,
                "document": {"text": documents[index], "multi_modal": None},
                "relevance_score": scores[index],
            }
            for index in best[: body.get("top_n") or None]
        ]
        return json_response(
            {
                "id": f"score-{uuid.uuid4().hex[:16]}",
                "model": model,
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
                "results": results,
            }
        )

    async def _scores(
        self, first: str | list[str], second: str | list[str], adapter: str | None, salt: str
    ) -> tuple[list[float], int]:
        """Return the similarity of each pair, and the tokens of all texts.

        Like vLLM with an embedding model, this computes each text once and compares vectors.
        """
        ones = [first] if isinstance(first, str) else first
        others = [second] if isinstance(second, str) else second
        if not ones:
            raise ApiError(400, "At least one text element must be given")
        if not others:
            raise ApiError(400, "At least one text_pair element must be given")
        if len(ones) not in (1, len(others)):
            raise ApiError(400, "Input lengths must be either 1:1, 1:N or N:N")
        prompts = prompt_tokens([*ones, *others], "input")
        await self._run(prompts, adapter, salt)
        found = [vectors.embedding(prompt, None) for prompt in prompts]
        left, right = found[: len(ones)], found[len(ones) :]
        left = left * (len(right) if len(left) == 1 else 1)
        scores = [vectors.similarity(one, other) for one, other in zip(left, right, strict=True)]
        return scores, sum(map(len, prompts))

    async def _run(self, prompts: list[list[int]], adapter: str | None, salt: str) -> None:
        """Compute the vectors of prompts in the engine.

        Raises:
            ApiError: a prompt is too long, the engine is dead, its queue is full, or a request
                failed in it.
        """
        for prompt in prompts:
            check_length(prompt, self._longest, output=0)
        submissions = (
            partial(self._engine.submit, prompt, (), 1, adapter=adapter, salt=salt, pooling=True)
            for prompt in prompts
        )
        requests = queue_all(self._engine, submissions)
        try:
            for request in requests:
                await ended(self._engine, request)
        finally:
            for request in requests:
                self._engine.abort(request)


def _encoded(vector: list[float], form: str | None) -> list[float] | str:
    if form != "base64":
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def _listed(kind: str, model: str, data: list[Json], tokens: int) -> web.Response:
    """Return a list of vectors or scores, with the tokens that it took."""
    return json_response(
        {
            "id": f"{kind}-{uuid.uuid4().hex[:16]}",
            "object": "list",
            "created": int(time.time()),
            "model": model,
            "data": data,
            "usage": {
                "prompt_tokens": tokens,
                "total_tokens": tokens,
                "completion_tokens": 0,
                "prompt_tokens_details": None,
                "completion_tokens_details": None,
            },
        }
    )
