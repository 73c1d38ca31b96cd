"""Calendar mode of the Dynamic Workload Scheduler: reservations for a period that is booked ahead.

Sources: docs.cloud.google.com/tpu/docs/calendar-mode-reservation (2025-12-18): 1 to 90 days, no
change, cancellation or deletion of a request, and deletion of the reservation and its VMs at the
end; docs.cloud.google.com/kubernetes-engine/docs/how-to/tpu-calendar-mode: no quota, and a node
pool that names the reservation; Compute Engine's API, FutureReservation.ReservationMode.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from gke_inference.settings import Settings
from gke_inference.settings.fields import Moment

from .input_error import InputError
from .problems import join

MIN_DAYS: Final = 1
MAX_DAYS: Final = 90
LEAD_HOURS: Final = {"gpu": 87, "tpu": 6}
"""Least time between a request and its start, by kind of accelerator. From guides that cite
docs.cloud.google.com/compute/docs/instances/future-reservations-calendar-mode-overview, not re-read
there."""
TPU_FAMILIES: Final = {
    "ct5lp": "VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_CT5LP",
    "ct5p": "VM_FAMILY_CLOUD_TPU_POD_SLICE_CT5P",
    "ct6e": "VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_CT6E",
    "tpu7x": "VM_FAMILY_CLOUD_TPU_POD_SLICE_TPU7X",
}
"""TPU families in the API, by the first word of their machine types."""
RESERVED_BY_PROVIDER: Final = ("tpu-v5e", "tpu-v6e")
"""TPUs that the provider can reserve: its enumeration of families has no TPU7x (pulumi-gcp 10.2,
compute.FutureReservation)."""


class ReservationPeriod(Settings):
    """Period of a reservation in calendar mode: 1 to 90 days."""

    start: Moment
    """Start, in UTC, such as `"2027-01-11T08:00:00Z"`."""
    end: Moment
    """End, in UTC. Google deletes the reservation and its VMs then."""


@dataclass(frozen=True)
class Period:
    """A valid period of a reservation."""

    start: datetime
    end: datetime

    @property
    def hours(self) -> float:
        """Length in hours."""
        return (self.end - self.start) / timedelta(hours=1)

    @property
    def label(self) -> str:
        """Its two days, as `2027-01-11 to 2027-01-18`."""
        return f"{self.start.date()} to {self.end.date()}"


def period_of(given: ReservationPeriod, where: str = "") -> Period:
    """Return the validated period.

    Args:
        given: The user's words.
        where: Path of the period in the user's input.

    Raises:
        InputError: A time does not exist, the end is not after the start, or the period is shorter
            or longer than calendar mode allows.
    """
    start, end = _moment(given.start, join(where, "start")), _moment(given.end, join(where, "end"))
    if end <= start:
        raise InputError(join(where, "end"), f"must be after start ({given.start})", given.end)
    days = (end - start) / timedelta(days=1)
    if not MIN_DAYS <= days <= MAX_DAYS:
        rule = f"must be {MIN_DAYS} to {MAX_DAYS} days after start ({given.start})"
        raise InputError(join(where, "end"), rule, given.end, f", {days:.4g} days after it")
    return Period(start, end)


def _moment(text: str, where: str) -> datetime:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise InputError(where, "must be a time that exists", text) from None


def stamp(moment: datetime) -> str:
    """Return a time as Google's APIs write it, such as `2027-01-11T08:00:00Z`."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def late(kind: str, start: datetime, now: datetime) -> str:
    """Return why Google would refuse a request with a start, or an empty text.

    Args:
        kind: `tpu` or `gpu`.
        start: Start of the period.
        now: Current time.
    """
    hours = LEAD_HOURS[kind]
    if start >= now + timedelta(hours=hours):
        return ""
    when = "in the past" if start <= now else f"less than {hours} hours ahead"
    return f"the start {stamp(start)} is {when}"
