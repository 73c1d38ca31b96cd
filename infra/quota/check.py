"""Compares what a stack can ask with what is allowed, and says what to ask Google for."""

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gke_inference.catalogue.quotas import quotas_service
from infra.quota.needs import Need

_HOST: Final = "cloudquotas.googleapis.com"
_NOBODY: Final = "EMAIL"


class State(StrEnum):
    """How an ask stands against its limit."""

    ENOUGH = "enough"
    TIGHT = "tight"
    SHORT = "short"
    UNLIMITED = "no limit"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Limit:
    """What a project may have of one quota."""

    value: int | None
    """None where nothing limits it."""
    used: int | None = None
    """What is in use already, by whomever; None where that is not known."""


@dataclass(frozen=True)
class Standing:
    """One need against its limit."""

    need: Need
    limit: Limit | None
    """None where it is not known."""
    wanted: int
    """What the limit would have to be."""

    @property
    def short_by(self) -> int:
        """What is missing, in the quota's unit; 0 where nothing is, or the limit is not known."""
        if self.limit is None or self.limit.value is None:
            return 0
        return max(0, self.wanted - self.limit.value)

    @property
    def state(self) -> State:
        """Whether it is short; tight is short only if what is in use belongs to others."""
        if self.limit is None:
            return State.UNKNOWN
        if self.limit.value is None:
            return State.UNLIMITED
        if self.short_by:
            return State.SHORT
        if self.need.amount + in_use_by_others(self.need, self.limit) > self.limit.value:
            return State.TIGHT
        return State.ENOUGH


@dataclass(frozen=True)
class Request:
    """What to send to Google for a higher limit."""

    command: str
    """For a shell with the Google Cloud CLI."""
    url: str
    """For a POST to the Cloud Quotas API."""
    body: dict[str, Any]


def in_use_by_others(need: Need, limit: Limit) -> int:
    """Return what others may use: not what reservations hold, which this stack draws on."""
    return 0 if need.is_reserved else limit.used or 0


def standings(
    needs: Iterable[Need],
    limit_of: Callable[[Need], Limit | None],
    *,
    beside_others: bool = False,
) -> list[Standing]:
    """Return how each need stands.

    Args:
        needs: what a stack can ask for.
        limit_of: the limit of a need's quota; None where it is not known.
        beside_others: whether what is in use belongs to others, so that both must fit. What
            reservations hold is the stack's own in any case.
    """
    found: list[Standing] = []
    for need in needs:
        limit = limit_of(need)
        beside = in_use_by_others(need, limit) if limit is not None and beside_others else 0
        found.append(Standing(need, limit, need.amount + beside))
    return found


def request(standing: Standing, project: str, email: str | None = None) -> Request:
    """Return the request that would raise a limit to what is wanted.

    Commands and fields: cloud.google.com/sdk/gcloud/reference/beta/quotas/preferences/create and
    docs.cloud.google.com/docs/quotas/reference/rest/v1/projects.locations.quotaPreferences. Google
    wants an e-mail address with every increase.
    """
    need, service = standing.need, quotas_service()
    email = email or _NOBODY
    parts = [
        "gcloud beta quotas preferences create",
        f"--project={shlex.quote(project)}",
        f"--service={service}",
        f"--quota-id={need.metric.id}",
        f"--preferred-value={standing.wanted}",
    ]
    if need.dimensions:
        listed = ",".join(f"{key}={value}" for key, value in need.dimensions.items())
        parts.append(f"--dimensions={listed}")
    body: dict[str, Any] = {
        "service": service,
        "quotaId": need.metric.id,
        "quotaConfig": {"preferredValue": str(standing.wanted)},
        "contactEmail": email,
    }
    if need.dimensions:
        body["dimensions"] = need.dimensions
    return Request(
        " ".join([*parts, f"--email={shlex.quote(email)}"]),
        f"https://{_HOST}/v1/projects/{project}/locations/global/quotaPreferences",
        body,
    )
