"""Reservations that rungs name: their zone, shape, state and free machines."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from gke_inference.catalogue.calendar_mode import late, stamp
from gke_inference.catalogue.rungs import Rung
from infra.plan import RegionPlan
from scripts.prerequisites.finding import Finding, Project, State, judged
from scripts.prerequisites.wanted import replicas_on, requested, reserved
from scripts.shared.google_cloud import NotFound, last

_SUBJECT: Final = "reservation"


@dataclass(frozen=True)
class _Held:
    """Contents of a reservation, in machines of a rung."""

    shape: str
    machines: int
    used: int


def reservations(project: Project) -> Iterator[Finding]:
    """Yield whether each reservation exists in each of its zones and fits its rung."""
    own = requested(project.plan)
    for region, rung, zone in reserved(project.plan):
        yield _finding(project, region, rung, zone, (zone, rung.reservation) in own)


def _owner(project: Project, rung: Rung) -> str:
    return rung.reservation_project or project.id


def _finding(
    project: Project, region: RegionPlan, rung: Rung, zone: str, is_requested: bool
) -> Finding:
    owner = _owner(project, rung)
    where = zone if owner == project.id else f"{zone} of {owner}"
    name = f"{rung.reservation} in {where}"
    least, most = replicas_on(region, rung)

    def look() -> Finding:
        url = f"compute.googleapis.com/compute/v1/projects/{owner}/zones/{zone}/reservations"
        try:
            found = project.cloud.get(f"{url}/{rung.reservation}")
        except NotFound:
            if is_requested:
                return _requested(name, rung)
            says = f"does not exist; the rung is {rung.label}"
            return Finding(_SUBJECT, name, State.MISSING, says, _create(rung, owner, zone, most))
        return _judged(project, name, rung, found, (least, most))

    return judged(project, _SUBJECT, name, look)


def _requested(name: str, rung: Rung) -> Finding:
    """Return whether `up` can still request a reservation for its period."""
    period = rung.reservation_period
    problem = "" if period is None else late(rung.kind, period.start, datetime.now(UTC))
    if problem:
        return Finding(_SUBJECT, name, State.MISSING, f"does not exist, and {problem}")
    return Finding(_SUBJECT, name, State.LATER, f"`up` requests {rung.reservation_machines} VMs")


def _judged(
    project: Project, name: str, rung: Rung, found: Mapping[str, Any], asked: tuple[int, int]
) -> Finding:
    """Return whether a reservation fits its rung."""

    def missing(says: str, command: str = "") -> Finding:
        return Finding(_SUBJECT, name, State.MISSING, says, command)

    owner, least = _owner(project, rung), asked[0]
    held = _held(rung, found)
    if held is None:
        return Finding(_SUBJECT, name, State.UNSEEN, "the response does not show its machines")
    wanted = _family(rung) if "aggregateReservation" in found else rung.machine_type
    if held.shape != wanted:
        return missing(f"holds {held.shape}; must hold {wanted} for the rung {rung.label}")
    status = str(found.get("status", "READY"))
    if status != "READY":
        return missing(f"is {status}; must be READY")
    if owner != project.id and not _is_shared(found, project):
        command = f"gcloud compute reservations update {rung.reservation} --project={owner}"
        command += f" --zone={last(found.get('zone'))} --add-share-with={project.id}"
        return missing(f"is not shared with {project.id}", command)
    free = held.machines - held.used
    says = f"{held.machines} x {rung.machine_type}, {free} free; the stack starts with {least}"
    if held.machines < least:
        command = (
            f"gcloud compute reservations update {rung.reservation} --project={owner}"
            f" --zone={last(found.get('zone'))} --vm-count={least}"
        )
        return missing(says, "" if "aggregateReservation" in found else command)
    says += f" and may grow to {asked[1]}"
    if free < least:
        says += "; machines in use must belong to this stack"
    return Finding(_SUBJECT, name, State.MET, says)


def _held(rung: Rung, found: Mapping[str, Any]) -> _Held | None:
    """Return the contents of a reservation of machines or TPU chips.

    Fields: compute/docs/reference/rest/v1/reservations (2026-11-22); 64-bit numbers are strings.
    """
    specific: dict[str, Any] | None = found.get("specificReservation")
    if specific is not None:
        shape = str(specific.get("instanceProperties", {}).get("machineType", ""))
        return _Held(last(shape), int(specific.get("count", 0)), int(specific.get("inUseCount", 0)))
    chips: dict[str, Any] | None = found.get("aggregateReservation")
    if chips is None:
        return None
    reserved, used = (
        sum(int(each.get("accelerator", {}).get("acceleratorCount", 0)) for each in listed)
        for listed in (chips.get("reservedResources", []), chips.get("inUseResources", []))
    )
    family = str(chips.get("vmFamily", "")).rpartition("_")[2]
    return _Held(family, reserved // rung.chips_per_node, -(-used // rung.chips_per_node))


def _family(rung: Rung) -> str:
    """Return the last word of the family of a TPU's machines, such as `CT6E`."""
    return rung.machine_type.partition("-")[0].upper()


def _is_shared(found: Mapping[str, Any], project: Project) -> bool:
    """Return whether a reservation of another project is shared with the stack's."""
    settings: dict[str, Any] = found.get("shareSettings", {})
    projects: dict[str, Any] = settings.get("projectMap", {})
    named = {project.id, str(project.number)}
    return settings.get("shareType") == "ORGANIZATION" or bool(named & set(projects))


def _create(rung: Rung, owner: str, zone: str, machines: int) -> str:
    """Return the command that requests a reservation; TPUs use a future reservation.

    Source: docs.cloud.google.com/sdk/gcloud/reference/compute/future-reservations/create
    (2026-11-22).
    """
    count = max(machines, rung.hosts)
    if rung.kind != "tpu" and rung.provisioning != "calendar":
        return (
            f"gcloud compute reservations create {rung.reservation} --project={owner} --zone={zone}"
            f" --machine-type={rung.machine_type} --vm-count={count} --require-specific-reservation"
        )
    shape = (
        f"--tpu-version={rung.accelerator.removeprefix('tpu-').removeprefix('tpu').upper()}"
        f" --chip-count={count * rung.chips_per_node} --workload-type=SERVING"
        if rung.kind == "tpu"
        else f"--machine-type={rung.machine_type} --total-count={count}"
    )
    return (
        f"gcloud compute future-reservations create {rung.reservation} --project={owner}"
        f" --zone={zone} {shape} --reservation-mode=CALENDAR --require-specific-reservation"
        f" --reservation-name={rung.reservation} --planning-status=SUBMITTED"
        f" {_when(rung)}"
    )


def _when(rung: Rung) -> str:
    period = rung.reservation_period
    if period is None:
        return "--start-time=TIME --duration=SECONDS"
    return f"--start-time={stamp(period.start)} --end-time={stamp(period.end)}"
