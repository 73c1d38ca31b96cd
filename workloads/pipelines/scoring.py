"""The pipeline: messages become events with features, scores, totals and dead letters."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.ml.inference.base import KeyedModelHandler, PredictionResult, RunInference
from apache_beam.transforms.trigger import (
    AccumulationMode,
    AfterCount,
    AfterWatermark,
)
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfoTiming

from .asking import RefusedError
from .events import Event, UnusableEventError, read_event
from .model import GatewayModel
from .settings import Settings
from .velocity import LETTERS, Velocity

_SCORES = "scores"


@dataclass(frozen=True)
class Message:
    """A message of Pub/Sub."""

    data: bytes
    attributes: Mapping[str, str]


class Outputs(NamedTuple):
    """What a pipeline publishes: collections of `Message`."""

    scores: Any
    totals: Any
    dead_letters: Any


def build(messages: Any, settings: Settings) -> Outputs:
    """Return the outputs for a collection of `Message`, whose timestamps are those of the events.

    Args:
        messages: The collection.
        settings: Settings of the pipeline.
    """
    read = messages | "Read events" >> beam.ParDo(_Read(settings)).with_outputs(
        LETTERS, main="events"
    )
    velocity = (
        read.events
        | "By key"
        >> beam.Map(lambda event: (event.key, event)).with_output_types(tuple[str, Event])
        | "Velocity" >> beam.ParDo(Velocity(settings)).with_outputs(LETTERS, main="counted")
    )
    handler = KeyedModelHandler(GatewayModel(settings))
    answered, failed = (
        velocity.counted
        | "Features" >> beam.Map(lambda given: (given, given[0].features(settings, *given[1:])))
        | "Ask the model" >> RunInference(handler).with_exception_handling()
    )
    split = answered | "Scores" >> beam.ParDo(_Scores(settings)).with_outputs(LETTERS, main=_SCORES)
    unanswered = failed.failed_inferences | "Unanswered" >> beam.FlatMap(_unanswered)
    unscored = (
        (velocity[LETTERS], split[LETTERS], unanswered)
        | "Without a score" >> beam.Flatten()
        | "Letters of events" >> beam.Map(lambda given: _letter(settings, *given))
    )
    letters = (read[LETTERS], unscored) | "Dead letters" >> beam.Flatten()
    totals = (
        split[_SCORES]
        | "Windows"
        >> beam.WindowInto(
            FixedWindows(settings.totals_seconds),
            trigger=AfterWatermark(late=AfterCount(1)),
            accumulation_mode=AccumulationMode.ACCUMULATING,
            allowed_lateness=settings.lateness_seconds,
        )
        | "By group" >> beam.Map(lambda score: (score["group"], score))
        | "Add up" >> beam.CombinePerKey(_Add())
        | "Totals" >> beam.ParDo(_Totals(settings))
    )
    scores = split[_SCORES] | "Score messages" >> beam.Map(lambda each: _score(settings, each))
    return Outputs(scores, totals, letters)


class _Read(beam.DoFn):
    """Makes messages into events."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def process(self, element: Message, timestamp: Any = beam.DoFn.TimestampParam) -> Iterable[Any]:
        try:
            yield read_event(element.data, timestamp.micros, self._settings)
        except UnusableEventError as error:
            Metrics.counter("DeadLetters", error.reason).inc()
            why = {"reason": error.reason, "detail": error.detail}
            kept = Message(element.data, {**element.attributes, **_filled(why)})
            yield beam.pvalue.TaggedOutput(LETTERS, kept)


class _Scores(beam.DoFn):
    """Separates scores from what the model rejects."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def process(self, element: tuple[tuple[Event, int, float], PredictionResult]) -> Iterator[Any]:
        (event, count, total), result = element
        if isinstance(result.inference, RefusedError):
            error = result.inference
            yield beam.pvalue.TaggedOutput(LETTERS, (event, error.reason, error.detail))
            return
        # RunInference makes batches, which have no time of their own
        score = {
            "id": event.id,
            "key": event.key,
            "group": event.group,
            "time": Timestamp(micros=event.micros).to_rfc3339(),
            "value": event.value,
            "window_count": count,
            "window_sum": total,
            "score": result.inference,
            "flagged": result.inference >= self._settings.threshold,
        }
        yield TimestampedValue(score, Timestamp(micros=event.micros))


class _Add(beam.CombineFn):
    """Number of events, number of flagged ones, and sum of the values."""

    def create_accumulator(self) -> tuple[int, int, float]:
        return 0, 0, 0.0

    def add_input(
        self, accumulator: tuple[int, int, float], score: Mapping[str, Any]
    ) -> tuple[int, int, float]:
        events, flagged, total = accumulator
        return events + 1, flagged + score["flagged"], total + score["value"]

    def merge_accumulators(
        self, accumulators: Iterable[tuple[int, int, float]]
    ) -> tuple[int, int, float]:
        columns = list(zip(*accumulators, strict=True))
        return sum(columns[0]), sum(columns[1]), sum(columns[2])

    def extract_output(self, accumulator: tuple[int, int, float]) -> tuple[int, int, float]:
        return accumulator


class _Totals(beam.DoFn):
    """Makes the totals of a group and window into messages."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def process(
        self,
        element: tuple[str, tuple[int, int, float]],
        window: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> Iterator[Message]:
        group, (events, flagged, total) = element
        start = window.start.to_rfc3339()
        body = {
            "group": group,
            "start": start,
            "end": window.end.to_rfc3339(),
            "events": events,
            "flagged": flagged,
            "sum": total,
            "late": pane.timing == PaneInfoTiming.LATE,
            "revision": pane.index,
        }
        name = f"{self._settings.pipeline}/{group}/{start}/{pane.index}"
        yield Message(_json(body), {"pipeline": self._settings.pipeline, "result_id": name})


def _unanswered(failed: tuple[Any, Any]) -> Iterator[tuple[Event, str, str]]:
    """Yield the events of a batch that no attempt got an answer for."""
    batch, error = failed
    for (event, _, _), _ in batch:
        yield event, "no-answer", str(error[1])[:200]


def _letter(settings: Settings, event: Event, reason: str, detail: str) -> Message:
    Metrics.counter("DeadLetters", reason).inc()
    body = asdict(event)
    body["time"] = Timestamp(micros=body.pop("micros")).to_rfc3339()
    why = {"pipeline": settings.pipeline, "reason": reason, "detail": detail}
    return Message(_json(body), _filled(why))


def _score(settings: Settings, score: Mapping[str, Any]) -> Message:
    # an ID is unique within its key only
    name = f"{settings.pipeline}/{score['key']}/{score['id']}"
    return Message(_json(score), {"pipeline": settings.pipeline, "result_id": name})


def _filled(attributes: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in attributes.items() if value}


def _json(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()
