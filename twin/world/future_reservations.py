"""Reservations in calendar mode that stacks requested, as stock of the twin's world.

The requests are resources of the twin's cloud; Compute Engine approves each at once (rule
reservation.calendar).
"""

from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from gke_inference.catalogue.accelerators import accelerator, accelerator_names
from gke_inference.catalogue.calendar_mode import TPU_FAMILIES
from twin.host.paths import TwinPaths
from twin.wire.property_values import Json, get_path
from twin.world.capacity import StockLine, World
from twin.world.machines import machine
from twin.world.store import list_resources

REQUEST = "gcp:compute/futureReservation:FutureReservation"


def world_of(paths: TwinPaths) -> World:
    """Return the current world, with the reservations that stacks requested.

    Raises:
        ValueError: `capacity.yaml` is not valid.
    """
    world = World.load(paths.capacity_file)
    requested = _requested(paths.root, _state(paths.cloud_db))
    return world.model_copy(update={"stock": (*requested, *world.stock)}) if requested else world


def _state(file: Path) -> tuple[int, ...]:
    """Return a value that changes with a database."""
    found: list[int] = []
    for each in (file, file.with_name(f"{file.name}-wal")):
        try:
            found.append(each.stat().st_mtime_ns)
        except FileNotFoundError:
            found.append(0)
    return tuple(found)


@lru_cache(maxsize=4)  # every scan of every autoscaler asks, and the cloud seldom changes
def _requested(root: Path, state: tuple[int, ...]) -> tuple[StockLine, ...]:
    del state
    records = list_resources(TwinPaths(root), (REQUEST,))
    return tuple(reservation(record.outputs) for record in records if record.status != "creating")


def reservation(request: Json) -> StockLine:
    """Return the reservation of a request, as it will be in stock."""
    accelerator, chips = _resources(request)
    start, end = period(request)
    return StockLine(
        zone=str(request["zone"]).rpartition("/")[2],
        accelerator=accelerator,
        provisioning="reservation",
        reservation=str(request.get("reservationName") or request["name"]),
        chips=chips,
        start=start,
        end=end,
    )


def period(request: Json) -> tuple[datetime, datetime]:
    """Return the start and the end of a request."""
    times = (get_path(request, f"timeWindow.{key}") for key in ("startTime", "endTime"))
    start, end = (datetime.fromisoformat(str(text)) for text in times)
    return start, end


def kind_of(request: Json) -> str:
    """Return `tpu` or `gpu`."""
    return accelerator(_resources(request)[0]).kind


def _resources(request: Json) -> tuple[str, int]:
    """Return the accelerator of a request and its number of chips."""
    kind = get_path(request, "specificSkuProperties.instanceProperties.machineType")
    if kind:
        item = machine(str(kind))
        count = int(str(get_path(request, "specificSkuProperties.totalCount")))
        return item.accelerator or item.family, count * (item.chips or item.vcpus)
    family = str(get_path(request, "aggregateReservation.vmFamily"))
    word = next(key for key, value in TPU_FAMILIES.items() if value == family)
    reserved: Any = get_path(request, "aggregateReservation.reservedResources")
    chips = sum(int(each["accelerator"]["acceleratorCount"]) for each in reserved)
    return _accelerator_of(f"{word}-"), chips


def _accelerator_of(prefix: str) -> str:
    """Return the accelerator whose machine types begin with a text."""
    return next(
        name
        for name in accelerator_names()
        if any(each.name.startswith(prefix) for each in accelerator(name).machines)
    )
