"""Current availability of spot and flex-start machines, which a quota does not guarantee."""

from collections.abc import Iterator
from typing import Any, Final

from gke_inference.catalogue.rungs import Rung
from infra.plan import RegionPlan
from scripts.prerequisites.finding import Finding, Project, State, judged
from scripts.prerequisites.wanted import replicas_on
from scripts.shared.google_cloud import last

_MODELS: Final = {"flex-start": "FLEX_START", "spot": "SPOT"}
"""Provisioning that `advice.capacity` supports; on-demand has no signal
(docs.cloud.google.com/compute/docs/instances/view-vm-availability, 2026-11-22)."""

_LIKELY: Final = 0.7
"""Minimum score that Google calls high (the same page)."""

_SUBJECT: Final = "obtainability"


def obtainability(project: Project) -> Iterator[Finding]:
    """Yield the availability of the initial machines of each region, by rung, as advice.

    The method has no TPUs and shows a momentary state; a rung with low availability has fallbacks.
    """
    for region in project.plan.regions.values():
        asked: set[tuple[str, str]] = set()
        for capacity in region.used_capacity:
            for at, rung in capacity.rungs.items():
                key = (rung.machine_type, rung.provisioning)
                if rung.provisioning not in _MODELS or key in asked:
                    continue
                asked.add(key)
                yield _finding(project, region, capacity.zones[at], rung)


def _finding(project: Project, region: RegionPlan, zones: tuple[str, ...], rung: Rung) -> Finding:
    name = f"{rung.machine_type} {rung.provisioning} in {region.name}"
    if rung.kind == "tpu":
        says = (
            "Google publishes no availability for TPUs; reserve them, or book them in calendar mode"
        )
        return Finding(_SUBJECT, name, State.UNSEEN, says, is_required=False)
    least, _ = replicas_on(region, rung)
    size = max(least, rung.hosts)

    def look() -> Finding:
        answer = project.cloud.query(
            f"compute.googleapis.com/compute/v1/projects/{project.id}/regions/{region.name}"
            "/advice/capacity",
            _body(project.id, rung, zones, size),
        )
        return _judged(name, size, answer)

    found = judged(project, _SUBJECT, name, look)
    return Finding(found.subject, name, found.state, found.says, found.command, is_required=False)


def _body(project: str, rung: Rung, zones: tuple[str, ...], size: int) -> dict[str, Any]:
    """Return the request (compute/docs/reference/rest/v1/advice/capacity, 2026-11-22)."""
    shape = "ANY_SINGLE_ZONE" if rung.is_multi_host else "ANY"
    return {
        "distributionPolicy": {
            "targetShape": shape,
            "zones": [{"zone": f"projects/{project}/zones/{zone}"} for zone in zones],
        },
        "instanceFlexibilityPolicy": {
            "instanceSelections": {"rung": {"machineTypes": [rung.machine_type]}}
        },
        "instanceProperties": {"scheduling": {"provisioningModel": _MODELS[rung.provisioning]}},
        "size": size,
    }


def _judged(name: str, size: int, answer: dict[str, Any]) -> Finding:
    recommended: list[dict[str, Any]] = answer.get("recommendations") or [{}]
    best = recommended[0]
    score: float | None = best.get("scores", {}).get("obtainability")
    if score is None:
        return Finding(_SUBJECT, name, State.UNSEEN, "the response has no score")
    shards: list[dict[str, Any]] = best.get("shards", [])
    zones = sorted({last(shard.get("zone")) for shard in shards})
    where = f", best in {', '.join(zones)}" if zones else ""
    machines = "machine" if size == 1 else "machines"
    says = f"{score:.0%} for {size} {machines} now{where}"
    if score >= _LIKELY:
        return Finding(_SUBJECT, name, State.MET, says)
    return Finding(_SUBJECT, name, State.UNLIKELY, says)
