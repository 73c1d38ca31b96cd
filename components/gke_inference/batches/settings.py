"""Inputs of batches, their validation, and the settings of the programs."""

import json
from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

import pulumi

from gke_inference.base.inputs import name_of, whole

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


class BatchCallersArgs(TypedDict):
    """Allowed ingress to the batch pods."""

    metrics_namespace: str
    """Namespace of the Managed Prometheus collectors."""
    proxies_cidr: str
    """Range of the load balancer's proxies: the region's proxy-only subnet."""


class BatchServiceArgs(TypedDict):
    """Inputs of `BatchService`."""

    bucket: pulumi.Input[str]
    """Name of the bucket: `BatchBucket.bucket_name`."""
    cluster_name: str
    """Cluster of the service, which exports the backlog."""
    endpoint: pulumi.Input[str]
    """URL of the gateway in front of the models."""
    exposure: str
    """`external` or `internal`, like the Gateway."""
    gateway_name: str
    """Kubernetes name of the Gateway (`InferenceGateway` with `hasBatches`)."""
    models: dict[str, BatchModelArgs]
    """Models and adapters that requests may name."""
    namespace: str
    """Namespace of the Gateway, the service and the workers."""
    service_account: str
    """Kubernetes service account that may write to the bucket (`WorkloadIdentity`)."""
    service_name: str
    """Kubernetes name of the service's objects. Those of the workers are named `NAME-worker`."""
    callers: NotRequired[BatchCallersArgs]
    """Allowed ingress to the pods. Required for safety with `teams`, since anyone who reaches the
    service can name any team. Default: no policy, all traffic is allowed."""
    deadline_seconds: NotRequired[int]
    """Maximum time to answer a request in seconds, 10 to 3600. Default: 600."""
    engines: NotRequired[dict[str, pulumi.Input[str]]]
    """Own engines by name: `BatchEngine.job`. The service creates a job for each batch of theirs.
    Default: none."""
    hostname: NotRequired[str]
    """Hostname that clients use. Default: every hostname of the Gateway."""
    key_secret: NotRequired[str]
    """Kubernetes Secret with the key of a client team in `key`, if the gateway requires one. With
    `teams`, that team must have `acts_for_teams`."""
    log_percent: NotRequired[float]
    """Percentage of requests in the load balancer's access log, 0 to 100. Default: 100."""
    max_gib_per_team: NotRequired[int]
    """Maximum size of a team's files and answers in GiB, 1 to 100000. Default: 100."""
    max_workers: NotRequired[int]
    """Maximum number of workers. Default: 4."""
    min_workers: NotRequired[int]
    """Minimum number of workers: 1 (default), or 0 if the cluster supports scaling to zero."""
    pickers: NotRequired[list[str]]
    """`HOST:PORT` of the pools' picker metrics. Default: none, queues are not considered."""
    requests_per_worker: NotRequired[int]
    """Maximum concurrent requests per worker, 1 to 200. Default: 16."""
    retention_days: NotRequired[int]
    """Days that the bucket retains objects. Default: 30."""
    teams: NotRequired[dict[str, list[str]]]
    """Models and adapters that each team of a `ClientGate` may use; an empty list means all.
    Default: clients are not distinguished, and everyone sees all files."""


def check(args: BatchServiceArgs) -> None:
    """Validate the settings.

    Raises:
        pulumi.InputPropertyError: A name or a number is wrong.
    """
    name_of(args, "service_name", "namespace")
    name_of(args, "namespace", "namespace")
    if not args["models"]:
        raise pulumi.InputPropertyError("models", "must have one or more, got none")
    for name, model in args["models"].items():
        own = model.get("engine")
        if own is not None and own not in (args.get("engines") or {}):
            got = f"must be one of engines, got {own!r}"
            raise pulumi.InputPropertyError(f"models.{name}.engine", got)
    least = whole(args, "min_workers", 1, least=0, most=1)
    whole(args, "max_workers", 4, least=max(least, 1), most=100)
    whole(args, "deadline_seconds", 600, least=10, most=3600)
    whole(args, "requests_per_worker", 16, least=1, most=200)
    whole(args, "retention_days", 30, least=2, most=365)
    _most_stored(args)


def _most_stored(args: BatchServiceArgs) -> int:
    return whole(args, "max_gib_per_team", 100, least=1, most=100_000)


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
        "deadline_seconds": whole(args, "deadline_seconds", 600, least=10, most=3600),
        "endpoint": given["endpoint"],
        "metrics_of_pickers": [f"http://{picker}/metrics" for picker in args.get("pickers", [])],
        "metrics_port": METRICS_PORT,
        "models": {name: dict(model) for name, model in args["models"].items()},
        "max_stored_bytes": _most_stored(args) * 2**30,
        "max_in_flight": whole(args, "requests_per_worker", 16, least=1, most=200),
        "port": PORT,
        "replicas": REPLICAS,
        "retention_days": whole(args, "retention_days", 30, least=2, most=365),
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
