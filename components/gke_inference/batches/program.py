"""Inputs of the batch service, and the settings of its programs."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, TypedDict

import pulumi
from pydantic import Field

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join
from gke_inference.gateway.settings import Exposure, LogPercent, ProxyCallersArgs
from gke_inference.settings.fields import (
    DEADLINE_SECONDS,
    WORKER_REQUESTS,
    DeadlineSeconds,
    WorkerRequests,
)

from .settings import (
    RETENTION_DAYS,
    TEAM_GIB,
    MaxWorkers,
    MinWorkers,
    RetentionDays,
    TeamGib,
)

PORT = 8000
METRICS_PORT = 9090
KEY_FOLDER = "/etc/batch-key"
SCRATCH_FOLDER = "/var/scratch"
SHARD_LINES = 500
"""Requests that a worker takes at a time, and therefore waiting requests per worker."""
REPLICAS = 2


class BatchModelArgs(TypedDict):
    """A model name that requests may use."""

    endpoints: list[str]
    """Endpoints that it supports, such as `/v1/chat/completions`."""
    engine: NotRequired[str]
    """Own engine that answers its requests, one of `engines`. Default: the Gateway."""
    objective: NotRequired[str]
    """InferenceObjective of its requests. Default: none."""


class BatchServiceArgs(TypedDict):
    """Inputs of `BatchService`."""

    bucket: pulumi.Input[str]
    """Name of the bucket: `BatchBucket.bucket_name`."""
    cluster_name: str
    """Cluster of the service, which exports the backlog."""
    endpoint: pulumi.Input[str]
    """URL of the gateway in front of the models."""
    exposure: Exposure
    """Exposure of the Gateway."""
    gateway_name: str
    """Kubernetes name of the Gateway (`InferenceGateway` with `hasBatches`)."""
    models: Annotated[dict[str, BatchModelArgs], Field(min_length=1)]
    """Models and adapters that requests may name."""
    namespace: str
    """Namespace of the Gateway, the service and the workers."""
    service_account: str
    """Kubernetes service account that may write to the bucket (`WorkloadIdentity`)."""
    service_name: str
    """Kubernetes name of the service's objects. Those of the workers are named `NAME-worker`."""
    callers: NotRequired[ProxyCallersArgs]
    """Allowed ingress to the pods. Required for safety with `teams`, since anyone who reaches the
    service can name any team. Default: no policy, all traffic is allowed."""
    deadline_seconds: NotRequired[DeadlineSeconds]
    """Maximum time to answer a request, in seconds. Default: 600."""
    engines: NotRequired[dict[str, pulumi.Input[str]]]
    """Own engines by name: `BatchEngine.job`. The service creates a job for each batch of theirs.
    Default: none."""
    hostname: NotRequired[str]
    """Hostname that clients use. Default: every hostname of the Gateway."""
    key_secret: NotRequired[str]
    """Kubernetes Secret with the key of a client team in `key`, if the gateway requires one. With
    `teams`, that team must have `acts_for_teams`."""
    log_percent: NotRequired[LogPercent]
    """Percentage of requests in the load balancer's access log. Default: 100."""
    max_gib_per_team: NotRequired[TeamGib]
    """Maximum size of a team's files and answers, in GiB. Default: 100."""
    max_workers: NotRequired[MaxWorkers]
    """Maximum number of workers. Default: 4."""
    min_workers: NotRequired[MinWorkers]
    """Minimum number of workers. 0 needs a cluster that supports scaling to zero. Default: 1."""
    pickers: NotRequired[list[str]]
    """`HOST:PORT` of the pools' picker metrics. Default: none, queues are not considered."""
    requests_per_worker: NotRequired[WorkerRequests]
    """Maximum concurrent requests per worker. Default: 16."""
    retention_days: NotRequired[RetentionDays]
    """Days that the bucket retains objects. Default: 30."""
    teams: NotRequired[dict[str, list[str]]]
    """Models and adapters that each team of a `ClientGate` may use; an empty list means all.
    Default: clients are not distinguished, and everyone sees all files."""


def checked_service(args: BatchServiceArgs) -> BatchServiceArgs:
    """Return the inputs with their types.

    Raises:
        pulumi.InputPropertiesError: A name or a number is wrong.
    """
    found = checked(BatchServiceArgs, args)
    name_of(found, "service_name", "namespace")
    name_of(found, "namespace", "namespace")
    known = found.get("engines", {})
    keep(
        InputError(join("models", name, "engine"), "must be one of engines", own)
        for name, model in found["models"].items()
        if (own := model.get("engine")) is not None and own not in known
    )
    return found


def document(
    args: BatchServiceArgs, given: Mapping[str, str], jobs: Mapping[str, str] | None = None
) -> str:
    """Return the settings of service and workers (workloads/batch/settings.py) as JSON.

    Args:
        args: Arguments of the component.
        given: `bucket` and `endpoint`, once known.
        jobs: Job of each of `engines`, once known.
    """
    found: dict[str, Any] = {
        "bucket": given["bucket"],
        "deadline_seconds": args.get("deadline_seconds", DEADLINE_SECONDS),
        "endpoint": given["endpoint"],
        "metrics_of_pickers": [f"http://{picker}/metrics" for picker in args.get("pickers", [])],
        "metrics_port": METRICS_PORT,
        "models": {name: dict(model) for name, model in args["models"].items()},
        "max_stored_bytes": args.get("max_gib_per_team", TEAM_GIB) * 2**30,
        "max_in_flight": args.get("requests_per_worker", WORKER_REQUESTS),
        "port": PORT,
        "replicas": REPLICAS,
        "retention_days": args.get("retention_days", RETENTION_DAYS),
        "scratch": SCRATCH_FOLDER,
        "shard_lines": SHARD_LINES,
    }
    if args.get("key_secret"):
        found["key_file"] = f"{KEY_FOLDER}/key"
    if jobs:
        found["engines"] = {name: json.loads(job) for name, job in jobs.items()}
    teams = args.get("teams")
    if teams is not None:
        found["teams"] = {team: list(names) or None for team, names in teams.items()}
    return json.dumps(found, indent=1, sort_keys=True)
