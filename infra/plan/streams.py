"""Resolved streams: region, names, and the pool that answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from infra.plan.names import object_name, resolve_names
from infra.stack import Platform, ResultsKind, SourceKind, Stream

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

    @property
    def is_kafka(self) -> bool:
        """Whether its messages come from Kafka."""
        return self.settings.source.kind is SourceKind.KAFKA


def streams(platform: Platform) -> tuple[StreamPlan, ...]:
    """Return the streams of a platform, in stack order."""
    return tuple(
        StreamPlan(
            name=name,
            settings=stream,
            region=region_of(platform, stream),
            physical=resolve_names(platform).stream(name),
            worker=f"stream-{name}",
            pool=object_name(stream.model),
            bucket=_bucket(platform, stream),
        )
        for name, stream in platform.streams.items()
    )


def _bucket(platform: Platform, stream: Stream) -> str | None:
    archive = stream.results.archive
    return stream.results.bucket if archive is None else resolve_names(platform).archive(archive)


def region_of(platform: Platform, stream: Stream) -> str:
    """Return the region of a stream's workers; by default, the first one by name.

    The engine sorts the fields of a stack, so the order in its file is lost.
    """
    if stream.region is not None:
        return stream.region
    return min(platform.regions_of(platform.models[stream.model]))


def has_topics(platform: Platform) -> bool:
    """Return whether a stream uses Pub/Sub."""
    return any(stream.source.kind is SourceKind.PUBSUB for stream in platform.streams.values())


def has_tables(platform: Platform) -> bool:
    """Return whether a stream writes answers to BigQuery."""
    return any(stream.results.kind is ResultsKind.BIGQUERY for stream in platform.streams.values())
