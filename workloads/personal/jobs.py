"""Training jobs: their objects, and the calls to the cluster that has them."""

import copy
import json
import os
import ssl
from pathlib import Path
from typing import Any, Final, Protocol

import aiohttp

from .sets import Set
from .settings import WorkSettings

_TIMEOUT: Final = aiohttp.ClientTimeout(total=20)
_EXISTS: Final = 409
_MISSING: Final = 404
KINDS: Final = ("jobs", "configmaps")
USER: Final = "personal-images/user"
"""Label with the user, by which a deletion finds what no state names any more."""


class ClusterError(Exception):
    """The cluster does not do a call now; the message is one line."""


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


class Cluster:
    """The API server, with the token of the pod's service account."""

    def __init__(self, session: aiohttp.ClientSession, job: dict[str, Any], account: str) -> None:
        host = os.environ["KUBERNETES_SERVICE_HOST"]
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        self._base = f"https://{host}:{port}"
        self._session = session
        self._namespace = job["metadata"]["namespace"]
        self._groups = {"configmaps": "/api/v1", "jobs": f"/apis/{job['apiVersion']}"}
        self._account = Path(account)
        self._tls = ssl.create_default_context(cafile=str(self._account / "ca.crt"))

    async def create(self, kind: str, obj: dict[str, Any]) -> None:
        """Create an object; one that exists is as good, because its content follows its name."""
        await self._call("POST", kind, "", obj, (_EXISTS,))

    async def get(self, name: str) -> dict[str, Any] | None:
        """Return a Job, or None."""
        status, found = await self._call("GET", "jobs", f"/{name}", None, (_MISSING,))
        return None if status == _MISSING else found

    async def delete(self, kind: str, name: str) -> None:
        """Delete an object. A Job stays until its pods are gone: they write until then."""
        await self._call(
            "DELETE", kind, f"/{name}", {"propagationPolicy": "Foreground"}, (_MISSING,)
        )

    async def names(self, kind: str, user: str) -> list[str]:
        """Return the names of a user's objects."""
        _, found = await self._call("GET", kind, f"?labelSelector={USER}%3D{user}", None, ())
        return [str(each["metadata"]["name"]) for each in found["items"]]

    async def _call(
        self, method: str, kind: str, rest: str, body: Any, allowed: tuple[int, ...]
    ) -> tuple[int, dict[str, Any]]:
        url = f"{self._base}{self._groups[kind]}/namespaces/{self._namespace}/{kind}{rest}"
        token = (self._account / "token").read_text().strip()  # it is renewed there
        try:
            async with self._session.request(
                method,
                url,
                json=body,
                headers={"authorization": f"Bearer {token}"},
                ssl=self._tls,
                timeout=_TIMEOUT,
            ) as response:
                status, text = response.status, await response.text()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise ClusterError(f"{method} {kind}: {type(error).__name__}") from error
        if status >= 400 and status not in allowed:
            raise ClusterError(f"{method} {kind}: HTTP {status}")
        return status, json.loads(text)


def job_name(found: Set) -> str:
    """Return the name of a set's Job and ConfigMap."""
    return f"train-{found.adapter}"


def ended(job: dict[str, Any]) -> str | None:
    """Return `Complete` or the reason of a failure, or None while a Job runs or waits."""
    conditions: list[dict[str, Any]] = job.get("status", {}).get("conditions") or []
    for condition in conditions:
        if condition.get("status") == "True" and condition["type"] in ("Complete", "Failed"):
            if condition["type"] == "Complete":
                return "Complete"
            return str(condition.get("reason") or "Failed")
    return None


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
