"""Batches: files of requests that models answer within a day, by OpenAI's Batch API."""

from enum import StrEnum

from pydantic import Field

from gke_inference.batches.settings import (
    ENGINE_REQUESTS,
    MAX_WORKERS,
    MIN_WORKERS,
    RETENTION_DAYS,
    TEAM_GIB,
    EngineRequests,
    MaxWorkers,
    MinWorkers,
    RetentionDays,
    TeamGib,
)
from gke_inference.clients.settings import Priority
from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    DEADLINE_SECONDS,
    WORKER_REQUESTS,
    BucketName,
    DeadlineSeconds,
    ModelName,
    Name,
    ObjectName,
    RegionName,
    WorkerRequests,
)


class CompletionWindow(StrEnum):
    """Maximum duration of a batch, with the values of OpenAI's API."""

    DAY = "24h"


class BatchWorkers(Settings):
    """Workers that send the requests of batches."""

    min: MinWorkers = MIN_WORKERS
    """Minimum number of workers: 1, or 0 if the cluster supports scaling to zero."""
    max: MaxWorkers = MAX_WORKERS
    """Maximum number of workers. There is one worker per 500 waiting requests."""
    requests: WorkerRequests = WORKER_REQUESTS
    """Maximum concurrent requests per worker. A worker sends fewer while the pool is busy."""


class BatchEngine(Settings):
    """Engine that a job starts for each batch of a model, on chips of a queue."""

    queue: Name
    """Queue of the jobs, in the region of the batches. Its flavors must have the same hardware."""
    team: Name
    """Team of the queue whose chips the jobs use."""
    engine_args: dict[str, str] = Field(default_factory=dict[str, str])
    """Additional engine flags, which replace those of the model. By default, the engine computes as
    many tokens per step as vLLM does for offline work."""
    requests: EngineRequests = ENGINE_REQUESTS
    """Maximum concurrent requests of a job."""


class Batches(Settings):
    """Files API and Batch API behind the gateway of one region."""

    models: tuple[ModelName, ...] | None = Field(default=None, min_length=1)
    """Models that answer, with their adapters. By default, all that generate text,
    embeddings or images."""
    bucket: BucketName | None = None
    """Existing bucket, whose lifecycle you manage. By default, one is created."""
    completion_window: CompletionWindow = CompletionWindow.DAY
    """Maximum time for a batch. Its unanswered requests then expire."""
    deadline_seconds: DeadlineSeconds = DEADLINE_SECONDS
    """Maximum time to answer one request."""
    engines: dict[ModelName, BatchEngine] = Field(default_factory=dict[ModelName, BatchEngine])
    """Models whose batches an engine of their own answers, instead of the replicas for interactive
    traffic. A file has requests for one of them, or for other models."""
    key_secret: ObjectName | None = None
    """Kubernetes Secret in the models' namespace, with the key of a team of `clients` in `key`. The
    team must have `acts_for_teams`: each request acts for the team of its file."""
    max_gib_per_team: TeamGib = TEAM_GIB
    """Maximum size of a team's files and answers, in GiB. Above it, the team uploads no more."""
    priority: Priority = Priority.BATCH
    """Priority of the requests. `batch` requests are rejected first when a model is at capacity."""
    region: RegionName | None = None
    """Region of files, batches and workers. By default, the only region."""
    retention_days: RetentionDays = RETENTION_DAYS
    """Days that files, answers and batches are retained."""
    workers: BatchWorkers = BatchWorkers()
    """Number of workers."""
