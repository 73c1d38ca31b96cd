"""Ranges of the settings of programs in containers, from the types of a stack.

A program that refuses its settings at the start takes down what it serves, so it has to accept what
a stack accepts: its ranges are those of the stack, and wider where a line here says so. Rules for
what no setting of a stack decides are in the program.
"""

import json
from typing import Any, Final

from pydantic import BaseModel

from gke_inference.backends.settings import WaitSettings
from gke_inference.clients.settings import WhenSpent
from infra.stack import FromZero
from infra.stack.backends import Backend, BackendTarget, Fallback
from infra.stack.batches import BatchEngine
from infra.stack.clients import AnswerCache, Clients, ClientTeam, TokenPrice
from infra.stack.guardrails import Guardrail
from infra.stack.optimization import Evaluation, Quantization, Tuning
from infra.stack.personal import PersonalImages
from infra.stack.pipelines import Pipeline
from infra.stack.streams import Stream, StreamWorkers

Range = dict[str, float]
"""`least` or `above`, and `most`. An end that is not there is open."""
_ENDS: Final = {"minimum": "least", "exclusiveMinimum": "above", "maximum": "most"}
_UNSET: Final[Range] = {"least": 0}
"""A program in Go reads 0 for what is not set."""


def bounds_of(model: type[BaseModel], field: str, wider: Range | None = None) -> Range:
    """Return the range of a setting of a stack, with other ends where the program's are wider.

    Raises:
        ValueError: The setting has no range, or an end of `wider` is narrower.
    """
    schema = model.model_json_schema()["properties"][field]
    kinds: list[dict[str, Any]] = schema.get("anyOf", [schema])
    found = {end: kind[name] for kind in kinds for name, end in _ENDS.items() if name in kind}
    where = f"{model.__name__}.{field}"
    if not found:
        raise ValueError(f"{where}: must have a range, got none")
    for end, value in (wider or {}).items():
        replaced = ("most",) if end == "most" else ("least", "above")
        own = next(found.pop(each) for each in replaced if each in found)
        if (value < own) is (end == "most"):
            raise ValueError(f"{where}: {end} must be wider than {own}, got {value}")
        found[end] = value
    return found


def gateway_bounds() -> dict[str, dict[str, Range]]:
    """Return the ranges of the gateway's programs, by program and setting."""
    return {
        "callout": {
            "cache.threshold": bounds_of(AnswerCache, "threshold"),
            # the load balancer waits one second for each response of the callout
            "cache.timeout_ms": {"least": 1, "most": 800},
            "cache.ttl_seconds": bounds_of(AnswerCache, "ttl_seconds"),
            "default_context": bounds_of(Clients, "default_context"),
            "guards.timeout_ms": bounds_of(Guardrail, "timeout_ms"),
            "models.context": bounds_of(Clients, "default_context", _UNSET),
            "prices": bounds_of(TokenPrice, "output_usd_per_million"),
            "replicas": bounds_of(Clients, "replicas"),
            # tests of stalled streams wait a second
            "stream_idle_seconds": bounds_of(Clients, "stream_idle_seconds", {"least": 1}),
            "teams.monthly_usd": bounds_of(ClientTeam, "monthly_usd"),
            "teams.requests_per_minute": bounds_of(ClientTeam, "requests_per_minute", _UNSET),
            "teams.tokens_per_minute": bounds_of(ClientTeam, "tokens_per_minute", _UNSET),
            "teams.tokens_per_month": bounds_of(ClientTeam, "tokens_per_month", _UNSET),
            "teams.when_spent.monthly_usd": bounds_of(WhenSpent, "monthly_usd"),
        },
        "relay": {
            "backends.context": bounds_of(Clients, "default_context", _UNSET),
            "backends.idle_seconds": bounds_of(Backend, "idle_seconds", _UNSET),
            # tests of slow backends wait for less than a second
            "backends.timeout_seconds": bounds_of(Backend, "timeout_seconds", {"above": 0}),
            "fallback.after_queue": bounds_of(Fallback, "after_queue"),
            "fallback.monthly_usd": bounds_of(Fallback, "monthly_usd"),
            "fallback.port": {"least": 1, "most": 65_535},
            "fallback.replicas": {"least": 0},
            "fallback.wait.expected_seconds": bounds_of(WaitSettings, "expected_seconds"),
            "fallback.wait.requests": bounds_of(FromZero, "requests"),
            "fallback.wait.seconds": bounds_of(FromZero, "seconds", {"above": 0}),
            "front.guard.timeout_ms": bounds_of(Guardrail, "timeout_ms"),
            # tests make all but one request choose a target
            "targets.weight": bounds_of(BackendTarget, "weight", {"most": 1_000_000}),
        },
    }


def service_bounds() -> dict[str, dict[str, Range]]:
    """Return the ranges of the programs in Python, by program and setting."""
    return {
        # requests to an own engine may be more than those to a pool
        "batch": {"max_in_flight": bounds_of(BatchEngine, "requests")},
        "evaluate": {
            "answer_tokens": bounds_of(Evaluation, "answer_tokens"),
            "concurrency": bounds_of(Evaluation, "concurrency"),
            "limit": bounds_of(Evaluation, "limit", {"least": 0}),  # 0: all questions
            "tolerance": bounds_of(Evaluation, "tolerance"),
        },
        "personal-front": {"max_open_sets": bounds_of(PersonalImages, "max_open_sets")},
        "personal-worker": {
            "retention_days": bounds_of(PersonalImages, "retention_days"),
            "sets": bounds_of(PersonalImages, "sets_per_worker"),
        },
        "pipelines": {
            name: bounds_of(Pipeline, name)
            for name in (
                "batch", "lateness_seconds", "retries", "threshold", "totals_seconds",
                "window_seconds",
            )
        },
        "quantize": {name: bounds_of(Quantization, name) for name in ("samples", "tokens")},
        "stream": {
            "attempts": bounds_of(Stream, "attempts"),
            "max_in_flight": bounds_of(StreamWorkers, "requests"),
        },
        "tune": {
            name: bounds_of(Tuning, name)
            for name in ("alpha", "batch", "epochs", "learning_rate", "tokens")
        },
    }  # fmt: skip


def bounds_file(programs: dict[str, dict[str, Range]]) -> str:
    """Return a file of ranges: JSON with a line for each setting."""
    blocks = (
        f"  {json.dumps(program)}: {{\n"
        + ",\n".join(f"    {json.dumps(name)}: {_line(each)}" for name, each in ranges.items())
        + "\n  }"
        for program, ranges in programs.items()
    )
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _line(found: Range) -> str:
    """Return a range, without the point of a whole number."""
    ends = (end for end in ("least", "above", "most") if end in found)
    return json.dumps(
        {end: int(found[end]) if found[end] == int(found[end]) else found[end] for end in ends}
    )
