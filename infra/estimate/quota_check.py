"""Compares a stack's maximum quota needs with the limits, and composes requests for increases."""

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from infra.estimate.quota_needs import Need

_HOST: Final = "cloudquotas.googleapis.com"
_NOBODY: Final = "EMAIL"


class State(StrEnum):
    """Result of comparing a need with its limit."""

    ENOUGH = "enough"
    TIGHT = "tight"
    SHORT = "short"
    UNLIMITED = "no limit"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Limit:
    """The limit of one quota in a project."""

    value: int | None
    """None if the quota is unlimited."""
    used: int | None = None
    """Current usage by anyone, or None if unknown."""


@dataclass(frozen=True)
class Standing:
    """One need compared with its limit."""

    need: Need
    limit: Limit | None
    """None if unknown."""
    wanted: int
    """The limit that the need requires."""

    @property
    def short_by(self) -> int:
        """Missing amount in the quota's unit; 0 if nothing is missing or the limit is unknown."""
        if self.limit is None or self.limit.value is None:
            return 0
        return max(0, self.wanted - self.limit.value)

    @property
    def state(self) -> State:
        """Whether quota is insufficient; `tight` only if current usage is by others."""
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
    """A request to Google for a higher limit."""

    command: str
    """Command for the Google Cloud CLI."""
    url: str
    """URL of the POST request to the Cloud Quotas API."""
    body: dict[str, Any]


def in_use_by_others(need: Need, limit: Limit) -> int:
    """Return the usage by others, without reservations, which this stack consumes."""
    return 0 if need.is_reserved else limit.used or 0


def standings(
    needs: Iterable[Need],
    limit_of: Callable[[Need], Limit | None],
    *,
    beside_others: bool = False,
) -> list[Standing]:
    """Return each need compared with its limit.

    Args:
        needs: quota that a stack can request.
        limit_of: the limit of a need's quota; None if it is not known.
        beside_others: whether what is in use belongs to others, so that both must fit. What
            reservations hold is the stack's own in any case.
    """
    compared: list[Standing] = []
    for need in needs:
        limit = limit_of(need)
        beside = in_use_by_others(need, limit) if limit is not None and beside_others else 0
        compared.append(Standing(need, limit, need.amount + beside))
    return compared


def request(standing: Standing, project: str, email: str | None = None) -> Request:
    """Return the request that raises a limit to the required value.

    Commands and fields: cloud.google.com/sdk/gcloud/reference/beta/quotas/preferences/create and
    docs.cloud.google.com/docs/quotas/reference/rest/v1/projects.locations.quotaPreferences. Google
    requires an email address with every increase.
    """
    need = standing.need
    service = need.metric.service
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
