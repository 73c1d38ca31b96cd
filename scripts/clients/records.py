"""The usage records, in Cloud Logging or in the logs of the twin's pods."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, cast

from infra.plan import Plan
from infra.plan.clients import GATE
from scripts.shared.google_cloud import Cloud
from scripts.terminal.console import CommandError
from scripts.terminal.options import plan_of
from scripts.terminal.where import Where, say_where
from twin.cluster import lifecycle
from twin.host.paths import TwinPaths

_ENTRIES: Final = "logging.googleapis.com/v2/entries:list"
_PAGE: Final = 1000
_CONTAINER: Final = "callout"


def plan_with_teams(stack: str) -> Plan:
    """Return a stack with client teams.

    Raises:
        CommandError: It has no teams.
    """
    plan = plan_of(stack)
    if plan.clients is None:
        raise CommandError(
            f"--stack: must be a stack with 'clients.teams', got {stack!r}: it has no keys"
        )
    return plan


def of_plan(plan: Plan, since: datetime, *, cloud: bool) -> Iterator[dict[str, Any]]:
    """Yield the records of a stack on the twin, or in Google Cloud.

    Raises:
        CloudError: Google refuses.
    """
    namespace = plan.names.gateway_namespace()
    say_where(Where.of(is_cloud=cloud), plan.project.id)
    if not cloud:
        yield from of_twin(namespace, TwinPaths.default(), since)
        return
    # Google's clients take a second to load, and the twin needs none of them.
    from scripts.shared import google_clients  # noqa: PLC0415

    with google_clients.plain_errors():
        opened = google_clients.connect(plan.project.id)
        yield from of_cloud(namespace, opened, since)


def of_twin(namespace: str, paths: TwinPaths, since: datetime) -> Iterator[dict[str, Any]]:
    """Yield the records of the gates in a namespace on the twin."""
    pattern = f"logs/pods/{namespace}_{GATE}-*_{_CONTAINER}.log"
    for folder in lifecycle.folders(paths):
        for file in sorted(folder.glob(pattern)):
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                record = _record(line)
                if record is not None and _at(record) >= since:
                    yield record


def of_cloud(namespace: str, cloud: Cloud, since: datetime) -> Iterator[dict[str, Any]]:
    """Yield the records of the gates in a namespace of a project.

    Raises:
        CloudError: Google refuses.
    """
    body: dict[str, Any] = {
        "resourceNames": [f"projects/{cloud.project}"],
        "filter": filter_of(namespace, since),
        "orderBy": "timestamp asc",
        "pageSize": _PAGE,
    }
    while True:
        answer = cloud.query(_ENTRIES, body)
        for line in answer.get("entries", []):
            yield dict(line.get("jsonPayload", {})) | {"time": line.get("timestamp", "")}
        token = answer.get("nextPageToken")
        if not token:
            return
        body = {**body, "pageToken": token}


def filter_of(namespace: str, since: datetime) -> str:
    """Return the Cloud Logging filter for the records."""
    return " AND ".join(
        (
            'resource.type="k8s_container"',
            f'resource.labels.namespace_name="{namespace}"',
            f'resource.labels.container_name="{_CONTAINER}"',
            "jsonPayload.prompt_tokens>=0",
            f'timestamp>="{since.isoformat()}"',
        )
    )


def _record(line: str) -> dict[str, Any] | None:
    try:
        found: Any = json.loads(line)
    except ValueError:
        return None  # an incomplete last line
    if not isinstance(found, dict) or "prompt_tokens" not in found:
        return None
    return cast("dict[str, Any]", found)


def _at(record: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(str(record["time"]))
