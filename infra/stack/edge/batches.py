"""Batches: files of requests that models answer within a day, by OpenAI's Batch API."""

from enum import StrEnum

from pydantic import Field

from infra.stack.base.fields import BucketName, ModelName, ObjectName, RegionName, StackModel
from infra.stack.edge.clients import Priority


class CompletionWindow(StrEnum):
    """How long a batch may take, as OpenAI's API has it."""

    DAY = "24h"


class BatchWorkers(StackModel):
    """How many workers send the requests of batches."""

    min: int = Field(default=1, ge=0, le=1)
    """Fewest workers: 1, or 0 where the cluster can scale to zero."""
    max: int = Field(default=4, ge=1, le=100)
    """Most workers; there is one for each 500 requests that wait."""
    requests: int = Field(default=16, ge=1, le=200)
    """Most requests that one worker has under way; it has fewer while the pool is busy."""


class Batches(StackModel):
    """Files and batches behind the gateway of one region."""

    models: tuple[ModelName, ...] | None = Field(default=None, min_length=1)
    """Models that answer, with their adapters; by default all that generate text or embeddings."""
    bucket: BucketName | None = None
    """Bucket that exists, whose lifecycle is yours; by default one is made."""
    completion_window: CompletionWindow = CompletionWindow.DAY
    """How long a batch may take."""
    deadline_seconds: int = Field(default=600, ge=10, le=3600)
    """Longest answer to one request."""
    key_secret: ObjectName | None = None
    """Kubernetes Secret in the models' namespace with the key of a team of `clients` in `key`."""
    priority: Priority = Priority.BATCH
    """Of the requests; `batch` is refused first when a model is full."""
    region: RegionName | None = None
    """Region of files, batches and workers; by default the only one."""
    retention_days: int = Field(default=30, ge=2, le=365)
    """Days that files, answers and batches are kept."""
    workers: BatchWorkers = BatchWorkers()
    """How many workers there are."""
