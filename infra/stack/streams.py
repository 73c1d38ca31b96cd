"""Streams: Pub/Sub or Kafka messages that a model answers as capacity permits."""

from enum import StrEnum

from pydantic import Field

from gke_inference.clients.settings import Priority
from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    DEADLINE_SECONDS,
    WORKER_REQUESTS,
    DeadlineSeconds,
    ModelName,
    Name,
    ObjectName,
    RegionName,
    WorkerRequests,
)
from gke_inference.streams.settings import (
    ATTEMPTS,
    BACKLOG_PER_WORKER,
    MAX_WORKERS,
    MIN_WORKERS,
    SCALE_IN_DELAY_SECONDS,
    Attempts,
    BacklogPerWorker,
    KafkaTopic,
    MaxWorkers,
    MinWorkers,
    ResultsSettings,
    ScaleInDelaySeconds,
)


class SourceKind(StrEnum):
    """Messaging service that delivers messages."""

    PUBSUB = "pubsub"
    KAFKA = "kafka"


class StreamSource(Settings):
    """Source of a stream's messages."""

    kind: SourceKind = SourceKind.PUBSUB
    """`pubsub` or `kafka`."""
    topic: str | None = Field(default=None, min_length=1, max_length=300)
    """Existing Pub/Sub topic, `projects/P/topics/T`; by default, one is created. For Kafka, the
    name of the topic."""
    brokers: tuple[str, ...] = ()
    """Kafka brokers, each as `HOST:PORT`."""
    group: str | None = Field(default=None, min_length=1, max_length=200)
    """Kafka consumer group. By default, the name of the stream."""
    secret: ObjectName | None = None
    """Kubernetes Secret in the models' namespace whose keys are librdkafka settings, such as
    `security.protocol` and `sasl.password`."""


class StreamResults(ResultsSettings):
    """Destination of a stream's answers."""

    archive: Name | None = None
    """Name of an entry of `storage.archives`, where `kind` is `bucket`; instead of `bucket`."""
    topic: KafkaTopic | None = None
    """Kafka topic, where the source is Kafka and `kind` is `topic`. By default,
    `SOURCE_TOPIC-results`."""


class StreamWorkers(Settings):
    """Number of workers of a stream."""

    min: MinWorkers = MIN_WORKERS
    """Minimum number of workers. With Kafka, at least 1."""
    max: MaxWorkers = MAX_WORKERS
    """Maximum number of workers."""
    backlog_per_worker: BacklogPerWorker = BACKLOG_PER_WORKER
    """Waiting messages per worker."""
    scale_in_delay_seconds: ScaleInDelaySeconds = SCALE_IN_DELAY_SECONDS
    """How long the backlog must stay low before workers are removed."""
    requests: WorkerRequests = WORKER_REQUESTS
    """Maximum concurrent requests per worker. A worker sends fewer while the pool is busy."""


class Stream(Settings):
    """Messages that a model answers at least once each. Each answer is stored once."""

    model: ModelName
    """Model that answers. A message may name the model or one of its adapters."""
    source: StreamSource = StreamSource()
    """Source of the messages."""
    results: StreamResults = StreamResults()
    """Destination of the answers."""
    attempts: Attempts = ATTEMPTS
    """Delivery attempts before a message becomes a dead letter. Attempts that find the pool busy or
    unavailable do not count."""
    deadline_seconds: DeadlineSeconds = DEADLINE_SECONDS
    """Processing time after which a message is redelivered."""
    key_secret: ObjectName | None = None
    """Kubernetes Secret in the models' namespace, with the key of a team of `clients` in `key`."""
    team: Name | None = None
    """Team of `clients` that the messages act for, with its models, limits, guardrails and cached
    answers. The key must be of a team with `acts_for_teams`. By default, the team of the key."""
    ordered: bool = False
    """Whether messages with the same ordering key, or Kafka key, are answered in order."""
    priority: Priority = Priority.BATCH
    """Priority of the requests. `batch` requests are rejected first when the model is at
    capacity."""
    region: RegionName | None = None
    """Region of the workers. By default, the first region with the model, by
    name."""
    workers: StreamWorkers = StreamWorkers()
    """Number of workers."""
