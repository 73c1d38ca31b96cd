"""Google's requirements for requests of reservations in calendar mode."""

from collections.abc import Callable
from datetime import timedelta

from gke_inference.catalogue.calendar_mode import MAX_DAYS, MIN_DAYS, late
from twin.providers.gcp.schema import Resource
from twin.wire.property_values import CloudError, Json
from twin.world.capacity import World
from twin.world.future_reservations import REQUEST, kind_of, period


def check_future_reservation(known: Resource, inputs: Json, world: Callable[[], World]) -> None:
    """Refuse a request that Google would refuse (rule reservation.calendar).

    Raises:
        CloudError: The period is too short, too long or too early. The wording is assumed.
    """
    if known.token != REQUEST or inputs.get("reservationMode") != "CALENDAR":
        return
    start, end = period(inputs)
    days = (end - start) / timedelta(days=1)
    if not MIN_DAYS <= days <= MAX_DAYS:
        _refuse("endTime", f"the duration must be {MIN_DAYS} to {MAX_DAYS} days, got {days:.4g}")
    problem = late(kind_of(inputs), start, world().now())
    if problem:
        _refuse("startTime", problem)


def _refuse(field: str, why: str) -> None:
    raise CloudError(
        400, f"Invalid value for field 'resource.timeWindow.{field}': {why}.", "invalid"
    )
