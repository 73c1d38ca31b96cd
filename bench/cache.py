"""`bench cache`: the rates of right and wrong hits of the answer cache.

Each question of questions.yaml, or of a file of the user's own, is sent once, always in the same
order, through Envoy and the callout. The embeddings come from a real, small model, or from the
user's own. An answer is wrong if it belongs to another
question. Only right answers save: dollars are the planner's unit cost of the answers' tokens on the
stack `local`, without the cost of embeddings and of the store.
"""

import asyncio
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import aiohttp
import yaml
from aiohttp import web

from bench.latency.callout_programs import KEY, SECRET, TEAM, programs, secret, until
from gke_inference.catalogue.user_yaml import user_yaml
from infra.estimate.stack_cost import stack_cost
from infra.estimate.unit_costs import unit_costs
from infra.estimate.usage import DEFAULT_USAGE
from planner.choice.cost import MEAN_SHARE
from planner.unit_cost.unit_cost import Traffic
from scripts.shared.tool_setup import obtain_modules
from scripts.terminal.console import CommandError, console
from scripts.terminal.options import plan_of
from twin.engines.embeddings import SERVER, WORDLLAMA
from twin.host.ports import free_ports
from twin.toolchain import needed_by

Row = dict[str, Any]
QUESTIONS: Final = Path(__file__).parent / "questions.yaml"
_THRESHOLDS = (0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
_SEED = 7
_ENGINE_SECONDS = 0.05
_ANSWER_TOKENS = 200
_MILLION = 1_000_000
_STACK = "local"
_START_SECONDS = 30.0
_STORING_SECONDS = 0.02
"""Answers are stored asynchronously."""


@dataclass(frozen=True)
class Question:
    """A question and its right answer."""

    text: str
    answer: str


@dataclass(frozen=True)
class Asked:
    """Result of a question."""

    question: Question
    is_hit: bool
    answer: str
    seconds: float


@dataclass(frozen=True)
class Embeddings:
    """A server with the paths of OpenAI, whose model computes the embeddings of questions."""

    url: str
    model: str


@dataclass(frozen=True)
class _Group:
    asked: list[str]
    """Wordings of one question."""
    unlike: list[str]
    """Questions that sound like it and have other answers."""


def questions(file: Path = QUESTIONS) -> list[Question]:
    """Return the questions of a file in the order of the requests.

    Args:
        file: YAML list of `asked`, the wordings of a question, with `unlike`, questions that sound
            like it and have other answers.

    Raises:
        CommandError: The file is missing, or something else.
    """
    try:
        found: Any = user_yaml(file.read_text())
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise CommandError(f"{file}: must be a YAML file: {error}") from error
    if not isinstance(found, list):
        raise CommandError(f"{file}: must be a list, got {found!r}")
    groups = [_group(f"{file}: [{at}]", each) for at, each in enumerate(cast("list[Any]", found))]
    made = [
        Question(
            text, f"answer to {group.asked[0]}" if text in group.asked else f"answer to {text}"
        )
        for group in groups
        for text in (*group.asked, *group.unlike)
    ]
    texts = [question.text for question in made]
    if twice := sorted({text for text in texts if texts.count(text) > 1}):
        raise CommandError(f"{file}: each question must be in it once, got twice {twice[0]!r}")
    if not made:
        raise CommandError(f"{file}: must have at least one question, got none")
    random.Random(_SEED).shuffle(made)  # noqa: S311 - an order, no secret
    return made


def _group(where: str, found: Any) -> _Group:
    fields = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    if not {"asked"} <= set(fields) <= {"asked", "unlike"}:
        raise CommandError(f"{where} must have asked, and may have unlike, got {found!r}")
    unlike: Any = fields.get("unlike", [])
    group = _Group(
        _texts(f"{where}.asked", fields["asked"]),
        _texts(f"{where}.unlike", [unlike] if isinstance(unlike, str) else unlike),
    )
    if not group.asked:
        raise CommandError(f"{where}.asked must have at least one question, got none")
    return group


def _texts(where: str, found: Any) -> list[str]:
    texts: list[Any] = cast("list[Any]", found) if isinstance(found, list) else [None]
    if not all(isinstance(text, str) for text in texts):
        raise CommandError(f"{where} must be a list of texts, got {found!r}")
    return list(texts)


def cache_rows(file: Path = QUESTIONS, own: Embeddings | None = None) -> list[Row]:
    """Return hits, wrong hits and latencies by threshold.

    Args:
        file: Questions, as `questions` reads them.
        own: The user's own model of embeddings; by default, WordLlama is started.

    Raises:
        CommandError: The file is invalid, a program did not start, or a request was refused.
    """
    asked = questions(file)
    if own is None and not WORDLLAMA.is_installed:
        raise CommandError(WORDLLAMA.hint)
    obtain_modules(needed_by("clients"))
    with tempfile.TemporaryDirectory() as name:
        return asyncio.run(_measure(Path(name), asked, own))


async def _measure(folder: Path, asked: list[Question], own: Embeddings | None) -> list[Row]:
    engine, port = free_ports(2)
    usd = usd_per_answer()
    runner = await _serve(engine, {question.text: question.answer for question in asked})
    rows: list[Row] = []
    try:
        async with _embeddings(port) if own is None else nullcontext(own) as embeddings:
            for threshold in _THRESHOLDS:
                found = await _run(folder, engine, embeddings, threshold, asked)
                rows.append(row_of(threshold, found, usd))
                console.print(rows[-1])
    finally:
        await runner.cleanup()
    return rows


@asynccontextmanager
async def _embeddings(port: int) -> AsyncGenerator[Embeddings]:
    """Run WordLlama."""
    model = subprocess.Popen([str(WORDLLAMA.python()), str(SERVER), str(port)])
    try:
        await _listening(port, model)
        yield Embeddings(f"http://127.0.0.1:{port}", "wordllama")
    finally:
        model.terminate()
        model.wait(10)


def usd_per_answer() -> float:
    """Return what the tokens of one answer cost on the stack `local`, by the planner's estimate.

    Raises:
        CommandError: The planner has no unit cost for its model.
    """
    plan = plan_of(_STACK)
    bill = stack_cost(plan, MEAN_SHARE, DEFAULT_USAGE).bill
    (cost,) = unit_costs(plan, bill, Traffic(made=_ANSWER_TOKENS))
    if cost.usd is None:
        raise CommandError(f"{_STACK}: no unit cost of {cost.model}: {cost.speed.basis}")
    return cost.usd.value.value * _ANSWER_TOKENS / _MILLION


def row_of(threshold: float, found: list[Asked], usd: float) -> Row:
    """Return the counts and latencies of one threshold.

    Args:
        threshold: Similarity from which a stored answer is returned.
        found: Every question with its outcome.
        usd: Cost of an answer that the cache saves.
    """
    hits = [one for one in found if one.is_hit]
    wrong = [one for one in hits if one.answer != one.question.answer]
    seen: set[str] = set()
    could = 0
    for one in found:
        could += one.question.answer in seen
        seen.add(one.question.answer)
    right = len(hits) - len(wrong)
    made = [one.seconds for one in found if not one.is_hit]
    return {
        "threshold": threshold,
        "questions": len(found),
        "known": could,
        "hits": len(hits),
        "wrong": len(wrong),
        "hit_rate": round(right / could, 2),
        "wrong_rate": round(len(wrong) / len(hits), 2) if hits else None,
        "saved": round(right / len(found), 2),
        "saved_usd_per_million": round(right / len(found) * usd * _MILLION, 2),
        "hit_ms": _milliseconds([one.seconds for one in hits]),
        "made_ms": _milliseconds(made),
    }


def _milliseconds(seconds: list[float]) -> float | None:
    return round(1000 * statistics.median(seconds), 1) if seconds else None


async def _run(
    folder: Path, engine: int, embeddings: Embeddings, threshold: float, asked: list[Question]
) -> list[Asked]:
    """Send every question to an empty cache."""

    def config(store: str) -> Mapping[str, Any]:
        return {
            "cache": {
                "embeddings": {"url": embeddings.url, "model": embeddings.model},
                "models": ["m"],
                "store": {"address": store},
                "threshold": threshold,
                "timeout_ms": 800,
            },
            "keys": {"secret": SECRET},
            "region": "local",
            "replicas": 1,
            "teams": {TEAM: {"models": ["m"], "cache": True}},
        }

    (port,) = free_ports(1)
    headers = {"authorization": f"Bearer {KEY}"}
    with programs(folder, engine, port, config) as is_ready:
        await until(is_ready)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", headers=headers) as session:
            return [await _ask(session, question) for question in asked]


async def _ask(session: aiohttp.ClientSession, question: Question) -> Asked:
    body = {"model": "m", "messages": [{"role": "user", "content": question.text}]}
    begun = time.perf_counter()
    async with session.post("/v1/chat/completions", json=body) as answer:
        found = await answer.json()
        seconds = time.perf_counter() - begun
        state = answer.headers.get("cache-status", "")
        if answer.status != web.HTTPOk.status_code or (
            "; hit" not in state and "=miss" not in state
        ):
            raise CommandError(f"HTTP {answer.status} {state} {found}")
    await asyncio.sleep(_STORING_SECONDS)
    text = found["choices"][0]["message"]["content"]
    return Asked(question, "; hit" in state, text, seconds)


async def _serve(port: int, answers: Mapping[str, str]) -> web.AppRunner:
    """Start the engine, which has every answer and also simulates Secret Manager."""

    async def answer(request: web.Request) -> web.Response:
        body = await request.json()
        await asyncio.sleep(_ENGINE_SECONDS)
        content = answers[body["messages"][-1]["content"]]
        message = {"role": "assistant", "content": content}
        prompt = len(content) // 4
        usage = {"prompt_tokens": prompt, "completion_tokens": _ANSWER_TOKENS}
        usage["total_tokens"] = sum(usage.values())
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({"choices": [choice], "usage": usage})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    app.router.add_get(f"/v1/{SECRET}/versions/latest:access", secret)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner


async def _listening(port: int, process: subprocess.Popen[bytes]) -> None:
    limit = time.monotonic() + _START_SECONDS
    while time.monotonic() < limit and process.poll() is None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    raise CommandError("the model of embeddings did not start")
