"""Computed replays of traces: engines without servers and gateway.

One replay serves planning, the published ladder and the search through the picker's settings:
`simulator.engine.replay`. Here its requests come from the traces of workloads or from files, and
its outcomes become the report that traffic has.
"""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from simulator.engine import compiled
from simulator.engine.replay import Cluster, Replay, TraceRequest
from simulator.engine.replay import Outcome as Replayed
from simulator.engine.settings import Deployment
from simulator.engine.stepped import Engines, ReferenceEngines
from simulator.replays.modelled_picker import ModelledPicker, PickerRoute
from simulator.traffic import Outcome, Record, Report, Trace, TraceEntry
from twin.host.file_problems import rule_of

_CHARACTERS_PER_TOKEN = 4


@lru_cache(maxsize=8192)
def _name(text: str) -> str:
    """Return a short, stable name for a text."""
    return sha256(text.encode()).hexdigest()[:16]


def requests_of(trace: Trace, base_model: str) -> list[TraceRequest]:
    """Return a trace's requests in the format of a replay.

    Args:
        trace: trace with texts of four characters per token (see `simulator.traffic.generators`).
        base_model: name of the base model.
    """
    return [_request(ask, base_model) for ask in trace.asks]


def _request(ask: TraceEntry, base_model: str) -> TraceRequest:
    prefix, tail = ask.prompt.prefix, ask.prompt.tail
    return TraceRequest(
        ask.at,
        max(1, (len(prefix) + len(tail)) // _CHARACTERS_PER_TOKEN),
        ask.output_tokens,
        group=_name(prefix) if prefix else "",
        prefix_tokens=len(prefix) // _CHARACTERS_PER_TOKEN,
        question=_name(tail),
        adapter=None if ask.model == base_model else ask.model,
    )


def picked(
    deployments: Sequence[Deployment], config: str, seed: int = 0, http_seconds: float = 0.0
) -> Cluster:
    """Return replicas behind the modeled picker.

    Args:
        deployments: one per replica.
        config: EndpointPickerConfig, YAML.
        seed: seed for breaking ties.
        http_seconds: see `Cluster`.
    """
    picker = ModelledPicker(config, seed)
    return Cluster(deployments, picker, picker.look, http_seconds)


def picked_engines(kinds: Sequence[Deployment], config: str, seed: int = 0) -> Engines:
    """Return engines whose pools are behind the modeled picker, compiled where that is possible.

    Args:
        kinds: deployments of the kinds of replicas.
        config: EndpointPickerConfig, YAML.
        seed: seed for breaking ties.
    """
    if compiled.is_built() and all(compiled.supports(each) for each in kinds):
        return compiled.CompiledEngines(kinds, ModelledPicker(config, seed).settings)
    return ReferenceEngines(kinds, lambda: PickerRoute(config, seed))


def report_of(result: Replay) -> Report:
    """Return the outcomes of a replay as a report of traffic."""
    return Report(tuple(_record(number, one) for number, one in enumerate(result.outcomes)))


def _record(number: int, outcome: Replayed) -> Record:
    request = outcome.request
    at = request.arrival
    last = None if outcome.e2e is None else at + outcome.e2e
    return Record(
        number,
        Outcome.LOST if last is None else Outcome.ANSWERED,
        due=at,
        sent=at,
        done=at if last is None else last,
        first=None if outcome.ttft is None else at + outcome.ttft,
        last=last,
        tokens=0 if last is None else request.output_tokens,
        prompt_tokens=request.prompt_tokens,
        status=200,
        replica=f"replica-{outcome.replica}",
        group=request.group,
    )


class _Line(BaseModel):
    """A line of a trace file: the fields of `TraceRequest`."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    arrival: float = Field(ge=0)
    prompt_tokens: int
    output_tokens: int
    group: str = ""
    prefix_tokens: int = 0
    question: str | None = None
    adapter: str | None = None
    priority: int = 0


_SHOWN = 40
"""Characters of a wrong line in its error."""


def read_trace(text: str) -> list[TraceRequest]:
    """Return the requests of a trace file, which has one JSON `TraceRequest` per line.

    Raises:
        ValueError: a line is not valid; the message has its number, the field and the reason.
    """
    found: list[TraceRequest] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found.append(TraceRequest(**_Line.model_validate_json(line).model_dump()))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            if not field:
                rule = f"must be a JSON object, got {line[:_SHOWN]!r}"
                raise ValueError(f"line {number}: {rule}") from error
            raise ValueError(f"line {number}: {field}: {rule_of([first])}") from error
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    if not found:
        raise ValueError("a trace must have a request, got none")
    return found
