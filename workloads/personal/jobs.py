"""Training jobs: their objects, and the calls to the cluster that has them."""

import copy
import json
from typing import Any, Final, Protocol

from workloads.common.cluster import Cluster, ClusterError, ended

from .sets import Set
from .settings import WorkSettings

__all__ = ["KINDS", "ClusterError", "Jobs", "SetJobs", "ended", "job_name", "objects_of"]

KINDS: Final = ("jobs", "configmaps")
USER: Final = "personal-images/user"
"""Label with the user, by which a deletion finds what no state names any more."""


class Jobs(Protocol):
    """The jobs of the namespace."""

    async def create(self, kind: str, obj: dict[str, Any]) -> None:
        """Create an object of `configmaps` or `jobs`; one that exists is as good."""
        ...

    async def get(self, name: str) -> dict[str, Any] | None:
        """Return a Job, or None."""
        ...

    async def delete(self, kind: str, name: str, /) -> None:
        """Delete an object. A Job stays until its pods are gone."""
        ...

    async def names(self, kind: str, user: str, /) -> list[str]:
        """Return the names of a user's objects."""
        ...


class SetJobs(Cluster):
    """The jobs of users' sets, with the token of the pod's service account."""

    async def names(self, kind: str, user: str) -> list[str]:
        """Return the names of a user's objects."""
        return await self.labelled(kind, USER, user)


def job_name(found: Set) -> str:
    """Return the name of a set's Job and ConfigMap."""
    return f"train-{found.adapter}"


def objects_of(found: Set, settings: WorkSettings) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the ConfigMap and the Job that train the adapter of a set.

    The platform made both without a name, because it knows the versions and the images.
    """
    content, job = copy.deepcopy(settings.config_map), copy.deepcopy(settings.job)
    name = job_name(found)
    for obj in (content, job):
        obj["metadata"]["name"] = name
        obj["metadata"]["labels"] = {**(obj["metadata"].get("labels") or {}), USER: found.user}
    for volume in job["spec"]["template"]["spec"]["volumes"]:
        if "configMap" in volume:
            volume["configMap"]["name"] = name
    training = {
        **settings.training,
        "adapter": f"{settings.shared}/{settings.adapters}/{found.adapter}",
        "images": f"/mnt/images/{found.folder}pictures",
        "work": f"{settings.shared}/work/{found.adapter}",
    }
    content["data"] = {"train.json": json.dumps(training, indent=1, sort_keys=True)}
    return content, job
