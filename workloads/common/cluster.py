"""Calls to the cluster that a program runs in, for its jobs."""

import json
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import aiohttp

_TIMEOUT: Final = aiohttp.ClientTimeout(total=20)
_EXISTS: Final = 409
_MISSING: Final = 404
ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Folder of a pod's token and of the cluster's certificate."""
_LONGEST_REASON: Final = 300
_OWNER_LABELS: Final = {
    "jobs": "batch.kubernetes.io/job-name",
    "jobsets": "jobset.sigs.k8s.io/jobset-name",
}
"""Label of pods with the name of their Job or JobSet."""
_COMPLETE: Final = ("Complete", "Completed")
"""Condition of a Job and of a JobSet that succeeded."""


class ClusterError(Exception):
    """The cluster does not do a call now; the message is one line."""


class Cluster:
    """The objects of a namespace, with the token of the pod's service account.

    Args:
        session: Session of the calls.
        namespace: Namespace of the objects.
        groups: Path of the API of each kind, such as `{"configmaps": "/api/v1"}`.
        account: Folder of the token.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        namespace: str,
        groups: Mapping[str, str],
        account: str = ACCOUNT,
    ) -> None:
        host = os.environ["KUBERNETES_SERVICE_HOST"]
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        self._base = f"https://{host}:{port}"
        self._session = session
        self._namespace = namespace
        self._groups = groups
        self._account = Path(account)
        self._tls = ssl.create_default_context(cafile=str(self._account / "ca.crt"))

    async def create(self, kind: str, obj: dict[str, Any]) -> None:
        """Create an object; one that exists is as good, because its content follows its name."""
        await self._call("POST", kind, "", obj, (_EXISTS,))

    async def get(self, name: str, kind: str = "jobs") -> dict[str, Any] | None:
        """Return an object, by default a Job, or None."""
        status, found = await self._call("GET", kind, f"/{name}", None, (_MISSING,))
        return None if status == _MISSING else found

    async def delete(self, kind: str, name: str) -> None:
        """Delete an object. A Job stays until its pods are gone: they write until then."""
        await self._call(
            "DELETE", kind, f"/{name}", {"propagationPolicy": "Foreground"}, (_MISSING,)
        )

    async def labelled(self, kind: str, label: str, value: str) -> list[str]:
        """Return the names of the objects with a label."""
        found = await self._labelled(kind, label, value)
        return [str(each["metadata"]["name"]) for each in found]

    async def pods_of(self, job: str, kind: str = "jobs") -> list[dict[str, Any]]:
        """Return the pods of a Job, or of a JobSet with `jobsets`."""
        return await self._labelled("pods", _OWNER_LABELS[kind], job)

    async def _labelled(self, kind: str, label: str, value: str) -> list[dict[str, Any]]:
        _, found = await self._call("GET", kind, f"?labelSelector={label}%3D{value}", None, ())
        return found["items"]

    async def _call(
        self, method: str, kind: str, rest: str, body: Any, allowed: tuple[int, ...]
    ) -> tuple[int, dict[str, Any]]:
        url = f"{self._base}{self._groups[kind]}/namespaces/{self._namespace}/{kind}{rest}"
        try:
            token = (self._account / "token").read_text().strip()  # it is renewed there
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
            raise ClusterError(f"{method} {kind}: HTTP {status}, {_said(text)}")
        try:
            return status, json.loads(text)
        except ValueError:
            raise ClusterError(f"{method} {kind}: HTTP {status}, no JSON") from None


def _said(text: str) -> str:
    """Return why the API server refused a call, on one line: quota, admission or permission."""
    try:
        found: dict[str, Any] = json.loads(text)
        said = str(found["message"])
    except (KeyError, TypeError, ValueError):
        said = text
    return " ".join(said.split())[:_LONGEST_REASON]


def ended(job: Mapping[str, Any]) -> str | None:
    """Return `Complete` or the reason of a failure, or None while a Job or JobSet runs or waits."""
    conditions: list[dict[str, Any]] = job.get("status", {}).get("conditions") or []
    for condition in conditions:
        if condition.get("status") == "True" and condition["type"] in (*_COMPLETE, "Failed"):
            if condition["type"] in _COMPLETE:
                return "Complete"
            return str(condition.get("reason") or "Failed")
    return None
