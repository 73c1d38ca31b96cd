"""Access logs of the gateways in Cloud Logging: entries of the regional load balancers.

Fields: docs.cloud.google.com/load-balancing/docs/https/https-reg-logging-monitoring and
docs.cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list (2026-11-22).
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from scripts.backend.backend import Wanted
from scripts.observe.access_log import Entry
from scripts.shared.google_cloud import Cloud, Json

_ENTRIES: Final = "logging.googleapis.com/v2/entries:list"
_RESOURCES: Final = ("http_external_regional_lb_rule", "internal_http_lb_rule")
"""Monitored resources of regional gateways: external and internal."""
_PAGE: Final = 1000
_LATE: Final = timedelta(seconds=60)
"""Maximum delay of an entry from the load balancer to Cloud Logging."""


class CloudAccessLog:
    """The load balancers' log entries in a stack's network."""

    def __init__(self, cloud: Cloud, network: str, wanted: Wanted) -> None:
        """Take the project, the name of the network, and the filters."""
        self._cloud, self._network, self._wanted = cloud, network, wanted
        self._since = datetime.now(UTC) - timedelta(minutes=wanted.minutes)
        self._seen: set[str] = set()

    def read(self) -> list[Entry]:
        """Return the lines since the last call, oldest first.

        Raises:
            CloudError: Google refuses.
        """
        begun = datetime.now(UTC)
        lines = [line for line in self._lines() if str(line.get("insertId")) not in self._seen]
        self._seen |= {str(line.get("insertId")) for line in lines}
        self._since = max(self._since, begun - _LATE)
        return [entry_of(line) for line in lines]

    def _lines(self) -> list[Json]:
        body: Json = {
            "resourceNames": [f"projects/{self._cloud.project}"],
            "filter": filter_of(self._network, self._since, self._wanted),
            "orderBy": "timestamp asc",
            "pageSize": _PAGE,
        }
        found: list[Json] = []
        while True:
            answer = self._cloud.query(_ENTRIES, body)
            found += answer.get("entries", [])
            token = answer.get("nextPageToken")
            if not token:
                return found
            body = {**body, "pageToken": token}


def filter_of(network: str, since: datetime, wanted: Wanted) -> str:
    """Return the Cloud Logging filter for the wanted entries."""
    resources = " OR ".join(f'"{name}"' for name in _RESOURCES)
    parts = [
        f"resource.type=({resources})",
        f'resource.labels.network_name="{network}"',
        f'timestamp>="{since.isoformat()}"',
    ]
    if wanted.status.endswith("xx"):
        least = int(wanted.status[0]) * 100
        parts += [f"httpRequest.status>={least}", f"httpRequest.status<{least + 100}"]
    elif wanted.status:
        parts.append(f"httpRequest.status={wanted.status}")
    if wanted.trace:
        parts.append(f'trace:"traces/{wanted.trace}"')
    return " AND ".join(parts)


def entry_of(line: Json) -> Entry:
    """Return a Cloud Logging entry with the fields of a gateway's access log.

    Cloud Logging has no model: the load balancer does not log request bodies.
    """
    request: dict[str, Any] = line.get("httpRequest", {})
    payload: dict[str, Any] = line.get("jsonPayload", {})
    labels: dict[str, Any] = line.get("resource", {}).get("labels", {})
    latency = str(request.get("latency", "")).removesuffix("s")
    trace = str(line.get("trace", "")).rpartition("/")[2]
    return {
        "code": request.get("status"),
        "details": payload.get("statusDetails") or payload.get("proxyStatus") or "-",
        "duration_ms": round(float(latency) * 1000) if latency else None,
        "endpoint": request.get("serverIp") or labels.get("backend_target_name"),
        "method": request.get("requestMethod"),
        "model": None,
        "path": urlsplit(str(request.get("requestUrl", ""))).path,
        "time": line.get("timestamp"),
        "traceparent": f"00-{trace}-{line.get('spanId') or '0' * 16}-01" if trace else None,
    }
