"""Compares two models behind the gateway with EleutherAI's lm-evaluation-harness."""

import json
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from workloads.transfer.errors import Refused
from workloads.transfer.store import Store
from workloads.transfer.versions import now
from workloads.transfer.work import Progress

from .samples import SampleError
from .scores import Result, Score, Side, object_of
from .settings import EvaluateSettings
from .weights import lines_of, version_in

VERSION_HEADER: Final = "x-model-version"
OWN: Final = "questions"
"""Name of the task of a user's own questions."""
_PATH: Final = "/v1/chat/completions"
_ERROR: Final = "_stderr,"
_RETRIES: Final = 8
_SECONDS: Final = 600


class NoScore(Exception):
    """A model did not answer, or a task has no such metric; the message is one line."""


def run(settings: EvaluateSettings, store: Store, progress: Progress) -> Result:
    """Evaluate both models, and write and return the result.

    Raises:
        NoScore: A model did not answer, or a task has no score that can be compared.
        SampleError: The data cannot be used.
        TransferError: The bucket cannot be used, or an endpoint's weights changed meanwhile.
    """
    tasks: list[Any] = list(settings.tasks)
    if settings.data:
        lines = lines_of(store, settings.bucket, settings.data)
        tasks.append(own_task(lines, Path(settings.work), settings.answer_tokens))
    sides = [_side(store, settings, each) for each in (settings.candidate, settings.baseline)]
    found = [ask(settings, side, tasks) for side in sides]
    for side, given in zip(sides, (settings.candidate, settings.baseline), strict=True):
        if _side(store, settings, given) != side:
            raise Refused(f"{side.model}: must keep its weights meanwhile, got another version")
    scores = compare(found[0], found[1], settings.metric)
    result = Result(settings.name, now(), sides[0], sides[1], scores)
    store.write(settings.bucket, object_of(result.name, result.time), result.dump(), generation=0)
    progress.say(f"{result.name}: {len(result.scores)} scores")
    return result


def _side(store: Store, settings: EvaluateSettings, given: Mapping[str, str]) -> Side:
    weights = version_in(store, settings.bucket, given["weights"])
    return Side(given["model"], given["version"], weights)


def own_task(lines: list[str], work: Path, tokens: int) -> dict[str, Any]:
    """Return the task of a user's own questions, and write them to a file of it.

    The answer to a question is right if it is the same text, whatever its case, punctuation and
    surrounding spaces.

    Raises:
        SampleError: A line has no question or no answer.
    """
    rows: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row: Any = json.loads(line)
            pair = {"answer": row["answer"], "question": row["question"]}
        except (KeyError, TypeError, ValueError):
            raise SampleError(f"line {number}: must have question and answer") from None
        if not all(isinstance(each, str) and each for each in pair.values()):
            raise SampleError(f"line {number}: question and answer must be text")
        rows.append(json.dumps(pair))
    if not rows:
        raise SampleError("data: must have at least one question, got none")
    work.mkdir(parents=True, exist_ok=True)
    file = work / "questions.jsonl"
    file.write_text("\n".join(rows) + "\n")
    return {
        "dataset_kwargs": {"data_files": {"test": str(file)}},
        "dataset_path": "json",
        "doc_to_target": "{{answer}}",
        "doc_to_text": "{{question}}",
        "filter_list": [
            {
                "filter": [
                    {"function": "remove_whitespace"},
                    {"function": "take_first"},
                ],
                "name": "whole",
            }
        ],
        "generation_kwargs": {"max_gen_toks": tokens, "temperature": 0.0, "until": []},
        "metric_list": [
            {
                "aggregation": "mean",
                "higher_is_better": True,
                "ignore_case": True,
                "ignore_punctuation": True,
                "metric": "exact_match",
            }
        ],
        "output_type": "generate_until",
        "task": OWN,
        "test_split": "test",
    }


def ask(settings: EvaluateSettings, side: Side, tasks: list[Any]) -> dict[str, Any]:
    """Return what the harness finds of one model.

    Raises:
        NoScore: The endpoint cannot be used.
    """
    # the harness takes many seconds to load; the data is read before
    os.environ.setdefault("HF_HOME", str(Path(settings.work) / "huggingface"))
    harness: Any = import_module("lm_eval")
    clients: Any = import_module("lm_eval.models.openai_completions")
    model = clients.LocalChatCompletion(
        base_url=settings.endpoint.rstrip("/") + _PATH,
        header=headers(settings, side),
        max_gen_toks=settings.answer_tokens,
        max_retries=_RETRIES,
        model=side.model,
        num_concurrent=settings.concurrency,
        timeout=_SECONDS,
    )
    failures: tuple[type[Exception], ...] = (import_module("aiohttp").ClientError, OSError)
    try:
        found: Any = harness.simple_evaluate(
            model=model,
            tasks=tasks,
            apply_chat_template=True,
            bootstrap_iters=0,
            limit=settings.limit or None,
            log_samples=False,
        )
    except failures as error:
        raise NoScore(f"{side.model}: {type(error).__name__}: {error}") from None
    return found


def headers(settings: EvaluateSettings, side: Side) -> dict[str, str]:
    """Return the headers of requests: the version, and the key, which changes when it rotates."""
    found = {"Content-Type": "application/json"}
    if side.version:
        found[VERSION_HEADER] = side.version
    if settings.key_file:
        key = Path(settings.key_file).read_text(encoding="utf-8").strip()
        found["Authorization"] = f"Bearer {key}"
    return found


def compare(
    candidate: Mapping[str, Any], baseline: Mapping[str, Any], metric: str
) -> tuple[Score, ...]:
    """Return the scores of two runs of the harness.

    Args:
        candidate: What it found of the candidate.
        baseline: The same of the baseline.
        metric: METRIC,FILTER, or nothing for the first one of each task.

    Raises:
        NoScore: A task has no such metric.
    """
    return tuple(
        _score(task, candidate, baseline, metric or _first(task, scores))
        for task, scores in candidate["results"].items()
        if task in candidate["n-samples"]  # not a group, whose tasks are here as well
    )


def _first(task: str, scores: Mapping[str, Any]) -> str:
    for name in scores:
        if "," in name and _ERROR not in name:
            return name
    raise NoScore(f"tasks: {task} has no metric")


def _score(
    task: str, candidate: Mapping[str, Any], baseline: Mapping[str, Any], metric: str
) -> Score:
    mine, other = candidate["results"][task], baseline["results"][task]
    if metric not in mine or metric not in other:
        known: str = ", ".join(name for name in mine if "," in name and _ERROR not in name)
        raise NoScore(f"metric: must be one of {task} ({known}), got {metric!r}")
    error = mine.get(metric.replace(",", _ERROR, 1))
    name = metric.partition(",")[0]
    return Score(
        task=task,
        metric=metric,
        candidate=float(mine[metric]),
        baseline=float(other[metric]),
        higher_is_better=bool(candidate.get("higher_is_better", {}).get(task, {}).get(name, True)),
        error=float(error) if isinstance(error, int | float) else None,
        questions=int(candidate["n-samples"][task]["effective"]),
    )
