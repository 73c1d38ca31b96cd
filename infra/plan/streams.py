"""Resolved streams: region, names, and the pool that answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from infra.plan.names import object_name, resolve_names
from infra.stack import Platform, ResultsKind, SourceKind, Stream, Task

ANSWER_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("STRING",),
    "model": ("STRING",),
    "answered": ("TIMESTAMP", "STRING"),
    "response": ("JSON", "STRING"),
}
"""Columns of a table that answers go to (workloads/stream/results.py), with their types."""


@dataclass(frozen=True)
class StreamPlan:
    """One stream, resolved."""

    name: str
    settings: Stream
    region: str
    physical: str
    """Name of its topic and subscription, and prefix of related names."""
    worker: str
    """Name of its workers' objects and service account."""
    pool: str
    """Name of the model's pool."""
    bucket: str | None
    """Bucket for its answers: an existing one, or that of an archive."""
    names: tuple[str, ...]
    """Names that messages may use: the model and its adapters."""
    has_picker: bool
    """Whether a picker chooses the replica that answers."""

    @property
    def is_kafka(self) -> bool:
        """Whether its messages come from Kafka."""
        return self.settings.source.kind is SourceKind.KAFKA

    @property
    def has_table(self) -> bool:
        """Whether its answers go to BigQuery."""
        return self.settings.results.kind is ResultsKind.BIGQUERY

    @property
    def may_be_idle(self) -> bool:
        """Whether it may scale to zero workers."""
        return self.settings.workers.min == 0


def resolve_streams(platform: Platform) -> tuple[StreamPlan, ...]:
    """Return the streams of a stack, in its order.

    By default, the workers of a stream are in the model's first region by name: the engine sorts
    the fields of a stack, so the order in its file is lost.
    """
    names = resolve_names(platform)

    def resolved(name: str, stream: Stream) -> StreamPlan:
        model, archive = platform.models[stream.model], stream.results.archive
        return StreamPlan(
            name=name,
            settings=stream,
            region=stream.region or min(platform.regions_of(model)),
            physical=names.stream(name),
            worker=f"stream-{name}",
            pool=object_name(stream.model),
            bucket=stream.results.bucket if archive is None else names.archive(archive),
            names=(stream.model, *model.adapter_names(stream.model)),
            has_picker=model.task is Task.GENERATE,
        )

    return tuple(resolved(name, stream) for name, stream in platform.streams.items())
