"""Own engines: one Job for each batch of their models, with an engine and a worker in its pod."""

import copy
from collections.abc import Mapping
from typing import Any, Final, Protocol

import aiohttp

from workloads.stream.cluster import Cluster, ended

from .records import Batch
from .settings import Settings

_WORKER: Final = "batch"
"""Container of the worker, whose last argument is the batch."""


class Jobs(Protocol):
    """The jobs of a namespace."""

    async def create(self, kind: str, obj: dict[str, Any], /) -> None:
        """Create a Job; one that exists is as good."""
        ...

    async def get(self, name: str, /) -> dict[str, Any] | None:
        """Return a Job, or None."""
        ...

    async def delete(self, kind: str, name: str, /) -> None:
        """Delete a Job, with its pods."""
        ...


class Engines:
    """The Jobs of batches.

    Args:
        templates: Job of each engine, without a name.
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
        jobs, name = self._jobs[engine], job_name(batch["id"])
        found = await jobs.get(name)
        if found is None:
            await jobs.create("jobs", job_of(self._templates[engine], batch["id"]))
            return None
        end = ended(found)
        return None if end in (None, "Complete") else f"the job of its engine failed: {end}"

    async def end(self, batch: Batch) -> None:
        """Delete the Job of a batch, which gives its chips back."""
        jobs = self._jobs.get(batch["engine"])
        if jobs is not None:
            await jobs.delete("jobs", job_name(batch["id"]))


def job_name(batch: str) -> str:
    """Return the name of a batch's Job."""
    return batch.replace("_", "-")


def job_of(template: dict[str, Any], batch: str) -> dict[str, Any]:
    """Return the Job of a batch. The platform made the rest: it knows versions and images."""
    job = copy.deepcopy(template)
    job["metadata"]["name"] = job_name(batch)
    for container in job["spec"]["template"]["spec"]["containers"]:
        if container["name"] == _WORKER:
            container["args"].append(batch)
    return job


def engines_of(settings: Settings, session: aiohttp.ClientSession) -> Engines:
    """Return the own engines of a service."""

    def cluster(job: dict[str, Any]) -> Cluster:
        groups = {"jobs": f"/apis/{job['apiVersion']}"}
        return Cluster(session, job["metadata"]["namespace"], groups, settings.account)

    jobs = {name: cluster(job) for name, job in settings.engines.items()}
    return Engines(settings.engines, jobs)
