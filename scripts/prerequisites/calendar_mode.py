"""The next free dates for rungs in calendar mode, as advised by Compute Engine."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gke_inference.catalogue.calendar_mode import TPU_FAMILIES, stamp
from gke_inference.catalogue.rungs import Rung
from infra.plan import RegionPlan
from scripts.prerequisites.finding import Finding, Project, State, judged
from scripts.prerequisites.wanted import replicas_on
from scripts.shared.google_cloud import last

_SUBJECT: Final = "calendar mode"

_LEAST_DAYS: Final = 7
"""Length of the requested reservation; calendar mode sells 1 to 90 days
(docs.cloud.google.com/compute/docs/instances/future-reservations-calendar-mode-overview)."""

_WITHIN_DAYS: Final = 28
"""Maximum lead time of its start. Assumed: no first deployment is planned for later."""


def calendar_mode(project: Project) -> Iterator[Finding]:
    """Yield the next week for which each rung in calendar mode can be reserved, as advice."""
    for region in project.plan.regions.values():
        asked: set[str] = set()
        for capacity in region.used_capacity:
            for at, rung in capacity.rungs.items():
                if rung.provisioning == "calendar" and rung.machine_type not in asked:
                    asked.add(rung.machine_type)
                    yield _finding(project, region, capacity.zones[at], rung)


def _finding(project: Project, region: RegionPlan, zones: tuple[str, ...], rung: Rung) -> Finding:
    _, most = replicas_on(region, rung)
    machines = max(most, rung.hosts)  # the same number as in the command for its reservation
    name = f"{machines} x {rung.machine_type} in {region.name}"

    def look() -> Finding:
        answer = project.cloud.query(
            f"compute.googleapis.com/compute/v1/projects/{project.id}/regions/{region.name}"
            "/advice/calendarMode",
            _body(rung, zones, machines, datetime.now(UTC)),
        )
        return _judged(name, answer)

    found = judged(project, _SUBJECT, name, look)
    return Finding(found.subject, name, found.state, found.says, found.command, is_required=False)


def _body(rung: Rung, zones: tuple[str, ...], machines: int, now: datetime) -> dict[str, Any]:
    """Return the request (compute/docs/reference/rest/v1/advice/calendarMode, 2026-11-22)."""
    family = TPU_FAMILIES.get(rung.machine_type.partition("-")[0])
    resources: dict[str, Any] = (
        {"specificSkuResources": {"instanceCount": machines, "machineType": rung.machine_type}}
        if family is None
        else {
            "aggregateResources": {
                "acceleratorCount": machines * rung.chips_per_node,
                "vmFamily": family,
                "workloadType": "SERVING",
            }
        }
    )
    seconds = f"{timedelta(days=_LEAST_DAYS).total_seconds():.0f}s"
    spec = {
        "locationPolicy": {
            "locations": {f"zones/{zone}": {"preference": "ALLOW"} for zone in zones}
        },
        "targetResources": resources,
        "timeRangeSpec": {
            "maxDuration": seconds,
            "minDuration": seconds,
            "startTimeNotEarlierThan": stamp(now),
            "startTimeNotLaterThan": stamp(now + timedelta(days=_WITHIN_DAYS)),
        },
    }
    return {"futureResourcesSpecs": {"rung": spec}}


def _judged(name: str, answer: dict[str, Any]) -> Finding:
    recommended: list[dict[str, Any]] = answer.get("recommendations") or [{}]
    advice: dict[str, Any] = recommended[0].get("recommendationsPerSpec", {}).get("rung", {})
    where, begins = last(advice.get("location", "")), str(advice.get("startTime", ""))
    if not where or not begins:
        says = f"no {_LEAST_DAYS} days that start within {_WITHIN_DAYS} days are free"
        return Finding(_SUBJECT, name, State.UNLIKELY, says)
    says = f"free in {where} for {_LEAST_DAYS} days from {begins}"
    return Finding(_SUBJECT, name, State.MET, says)
