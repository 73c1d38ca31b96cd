"""Settings of streams, which stacks and the workers of a stream share."""

from typing import Annotated, Final

from pydantic import Field

from gke_inference.settings import Settings, Word
from gke_inference.settings.fields import BucketName, TableName

Attempts = Annotated[int, Field(ge=1, le=20)]
"""Attempts at a message before it becomes a dead letter."""
ATTEMPTS: Final = 5
MinWorkers = Annotated[int, Field(ge=0, le=1000)]
"""Minimum number of workers."""
MIN_WORKERS: Final = 0
MaxWorkers = Annotated[int, Field(ge=1, le=1000)]
"""Maximum number of workers."""
MAX_WORKERS: Final = 8
BacklogPerWorker = Annotated[int, Field(ge=1, le=1_000_000)]
"""Waiting messages per worker."""
BACKLOG_PER_WORKER: Final = 100
ScaleInDelaySeconds = Annotated[int, Field(ge=0, le=3600)]
"""How long the backlog must stay low before workers are removed."""
SCALE_IN_DELAY_SECONDS: Final = 300
"""New messages are seen up to three minutes late."""
KafkaTopic = Annotated[str, Field(min_length=1, max_length=249)]


class ResultsKind(Word):
    """Destination of answers."""

    TOPIC = "topic"
    BUCKET = "bucket"
    BIGQUERY = "bigquery"


class ResultsSettings(Settings):
    """Destination of a stream's answers."""

    kind: ResultsKind = ResultsKind.TOPIC
    """`topic`, with a subscription that retains answers for a week; `bucket`; or `bigquery`."""
    bucket: BucketName | None = None
    """Existing bucket, where `kind` is `bucket`."""
    prefix: str = Field(default="", max_length=200)
    """Prefix of the object names in the bucket."""
    table: TableName | None = None
    """Existing table `PROJECT.DATASET.TABLE`, where `kind` is `bigquery`, with the columns id,
    model, answered and response."""
    topic: KafkaTopic | None = None
    """Kafka topic, where the source is Kafka and `kind` is `topic`."""
