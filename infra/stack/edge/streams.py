"""Streams: messages of Pub/Sub or Kafka that a model answers as there is room."""

from enum import StrEnum

from pydantic import Field

from infra.stack.base.fields import (
    BucketName,
    ModelName,
    ObjectName,
    RegionName,
    StackModel,
    TableName,
)
from infra.stack.edge.clients import Priority


class SourceKind(StrEnum):
    """Where messages come from."""

    PUBSUB = "pubsub"
    KAFKA = "kafka"


class ResultsKind(StrEnum):
    """Where answers go."""

    TOPIC = "topic"
    BUCKET = "bucket"
    BIGQUERY = "bigquery"


class StreamSource(StackModel):
    """Where the messages of a stream come from."""

    kind: SourceKind = SourceKind.PUBSUB
    """`pubsub` or `kafka`."""
    topic: str | None = Field(default=None, min_length=1, max_length=300)
    """`projects/P/topics/T` of a topic of Pub/Sub that exists, by default one is made; or the topic
    of Kafka."""
    brokers: tuple[str, ...] = ()
    """Brokers of Kafka, `HOST:PORT` each."""
    group: str | None = Field(default=None, min_length=1, max_length=200)
    """Group of the consumers of Kafka; by default the stream's name."""
    secret: ObjectName | None = None
    """Kubernetes Secret in the models' namespace whose keys are settings of librdkafka, such as
    `security.protocol` and `sasl.password`."""


class StreamResults(StackModel):
    """Where the answers of a stream go."""

    kind: ResultsKind = ResultsKind.TOPIC
    """`topic`, with a subscription that keeps them for a week; `bucket`; or `bigquery`."""
    bucket: BucketName | None = None
    """Bucket that exists, where `kind` is bucket."""
    prefix: str = Field(default="", max_length=200)
    """First part of the names of the objects in it."""
    table: TableName | None = None
    """`PROJECT.DATASET.TABLE` that exists, where `kind` is bigquery; its columns are id, model,
    answered and response."""
    topic: str | None = Field(default=None, min_length=1, max_length=249)
    """Topic of Kafka, where the source is Kafka and `kind` is topic; by default
    `SOURCE_TOPIC-results`."""


class StreamWorkers(StackModel):
    """How many workers a stream has."""

    min: int = Field(default=0, ge=0, le=1000)
    """Fewest workers; with Kafka at least 1."""
    max: int = Field(default=8, ge=1, le=1000)
    """Most workers."""
    backlog_per_worker: int = Field(default=100, ge=1, le=1_000_000)
    """Messages that one worker is for."""
    scale_in_delay_seconds: int = Field(default=300, ge=0, le=3600)
    """How long less backlog must last before workers go."""
    requests: int = Field(default=16, ge=1, le=200)
    """Most requests that one worker has under way; it has fewer while the pool is busy."""


class Stream(StackModel):
    """Messages that a model answers: at least once each, and each answer kept once."""

    model: ModelName
    """Model that answers; a message may name it or one of its adapters."""
    source: StreamSource = StreamSource()
    """Where messages come from."""
    results: StreamResults = StreamResults()
    """Where answers go."""
    attempts: int = Field(default=5, ge=1, le=20)
    """Attempts at a message before it is a dead letter. A pool that is busy or away costs none."""
    deadline_seconds: int = Field(default=600, ge=10, le=3600)
    """How long a message is worked on before it comes again."""
    key_secret: ObjectName | None = None
    """Kubernetes Secret in the models' namespace with the key of a team of `clients` in `key`."""
    ordered: bool = False
    """Whether messages of one ordering key, or key of Kafka, are answered one after another."""
    priority: Priority = Priority.BATCH
    """Of its requests; `batch` is refused first when the model is full."""
    region: RegionName | None = None
    """Region of the workers; by default the first that has the model."""
    workers: StreamWorkers = StreamWorkers()
    """How many workers there are."""
