"""Own engines: one Job for each batch of their models, with an engine and a worker in its pod.

On hardware of several hosts, it is a JobSet, whose first pod has the worker.
"""

import copy
import math
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, Protocol

import aiohttp

from workloads.common.cluster import Cluster, ended

from .records import Batch
from .settings import Settings, start_seconds

_WORKER: Final = "batch"
"""Container of the worker, whose last argument is the batch."""
_KINDS: Final = ("PodScheduled", "Ready")
"""Conditions of a pod whose times count."""
_OVER: Final = ("Failed", "Succeeded")
"""Phases of a pod that has ended."""


class Jobs(Protocol):
    """The jobs of a namespace. A kind is `jobs` or `jobsets`."""

    async def create(self, kind: str, obj: dict[str, Any], /) -> None:
        """Create a job; one that exists is as good."""
        ...

    async def get(self, name: str, kind: str, /) -> dict[str, Any] | None:
        """Return a job, or None."""
        ...

    async def pods_of(self, job: str, kind: str, /) -> list[dict[str, Any]]:
        """Return the pods of a job."""
        ...

    async def delete(self, kind: str, name: str, /) -> None:
        """Delete a job, with its pods."""
        ...


class Engines:
    """The Jobs of batches.

    Args:
        templates: Job or JobSet of each engine, without a name. See `start_seconds`.
        jobs: Jobs of each engine's namespace.
    """

    def __init__(self, templates: Mapping[str, dict[str, Any]], jobs: Mapping[str, Jobs]) -> None:
        self._templates = templates
        self._jobs = jobs

    async def ensure(self, batch: Batch) -> str | None:
        """Create the Job of a batch, unless it exists; return why it cannot end, if so."""
        engine = batch["engine"]
        if engine not in self._jobs:
            return f"the platform has no own engine for {engine} any more"
        jobs, name, template = self._jobs[engine], job_name(batch["id"]), self._templates[engine]
        kind = _plural(template)
        found = await jobs.get(name, kind)
        if found is None:
            await jobs.create(kind, job_of(template, batch["id"]))
            return None
        end = ended(found)
        if end is not None:
            return None if end == "Complete" else f"the job of its engine failed: {end}"
        if not _is_starting(found):
            return None
        limit = start_seconds(template)
        for pod in await jobs.pods_of(name, kind):
            if time.time() - _unready_since(pod) > limit:
                return f"its engine was not ready for {limit} s: {_reason(pod)}"
        return None

    async def end(self, batch: Batch) -> None:
        """Delete the Job of a batch, which gives its chips back."""
        jobs = self._jobs.get(batch["engine"])
        if jobs is not None:
            await jobs.delete(_plural(self._templates[batch["engine"]]), job_name(batch["id"]))


def job_name(batch: str) -> str:
    """Return the name of a batch's Job."""
    return batch.replace("_", "-")


def job_of(template: dict[str, Any], batch: str) -> dict[str, Any]:
    """Return the job of a batch. The platform made the rest: it knows versions and images."""
    job = copy.deepcopy(template)
    job["metadata"]["name"] = job_name(batch)
    spec: dict[str, Any] = job["spec"]
    specs = [each["template"]["spec"] for each in spec.get("replicatedJobs", [])] or [spec]
    for each in specs:
        for container in each["template"]["spec"]["containers"]:
            if container["name"] == _WORKER:
                container["args"].append(batch)
    return job


def _plural(job: dict[str, Any]) -> str:
    return f"{job['kind'].lower()}s"


def _is_starting(job: dict[str, Any]) -> bool:
    """Return whether a job has pods of which some are not ready."""
    state: dict[str, Any] = job.get("status", {})
    parts: list[dict[str, Any]] = state.get("replicatedJobsStatus") or []
    if not parts:
        return bool(state.get("active")) and not state.get("ready")
    return any(each.get("active", 0) > each.get("ready", 0) for each in parts)


def _unready_since(pod: dict[str, Any]) -> float:
    """Return since when a pod has a node and is not ready; infinity if it is ready or has no node.

    A sidecar restarts in its pod for as long as it fails, so its Job never fails.
    """
    status: dict[str, Any] = pod.get("status", {})
    known: list[dict[str, Any]] = status.get("conditions") or []
    found = {str(each["type"]): each for each in known}
    is_placed = found.get("PodScheduled", {}).get("status") == "True"
    is_ready = found.get("Ready", {}).get("status") == "True"
    is_over = "deletionTimestamp" in pod["metadata"] or status.get("phase") in _OVER
    if is_over or is_ready or not is_placed:
        return math.inf
    times = [str(found[kind]["lastTransitionTime"]) for kind in _KINDS if kind in found]
    return max(datetime.fromisoformat(each).timestamp() for each in times)


def _reason(pod: dict[str, Any]) -> str:
    """Return the first container that is not ready, and why: `vllm, ImagePullBackOff`."""
    status: dict[str, list[dict[str, Any]]] = pod["status"]
    for name in ("initContainerStatuses", "containerStatuses"):
        for each in status.get(name) or []:
            if not each.get("ready"):
                waiting: dict[str, Any] = each.get("state", {}).get("waiting") or {}
                return f"{each['name']}, {waiting.get('reason') or 'NotReady'}"
    return "NotReady"


def engines_of(settings: Settings, session: aiohttp.ClientSession) -> Engines:
    """Return the own engines of a service."""

    def cluster(job: dict[str, Any]) -> Cluster:
        groups = {_plural(job): f"/apis/{job['apiVersion']}", "pods": "/api/v1"}
        return Cluster(session, job["metadata"]["namespace"], groups, settings.account)

    jobs = {name: cluster(job) for name, job in settings.engines.items()}
    return Engines(settings.engines, jobs)
