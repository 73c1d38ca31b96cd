"""The world's capacity: what there is where, what quota allows, and who gets it.

`capacity.yaml` says how the world is now; scenarios rewrite it. Decisions are pure functions over
it and the list of what is handed out; `capacity_ledger.py` keeps that list for all clusters.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from twin.host.file_problems import lines_of, read_yaml
from twin.world.machines import Machine, Provisioning
from twin.world.quota import QuotaKind, QuotaLine, is_accelerator
from twin.world.regions import regions

Outcome = Literal["granted", "quota", "stockout", "no-reservation"]
UNLIMITED = float("inf")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class StockLine(_Strict):
    """How much of something a zone has, in all."""

    zone: str
    """A zone; `*` and `?` match, and what matches shares the chips."""
    accelerator: str
    provisioning: Provisioning | Literal["*"] = "*"
    reservation: str | None = None
    chips: int | Literal["unlimited"]

    @model_validator(mode="after")
    def _reservation_is_named(self) -> "StockLine":
        if (self.provisioning == "reservation") != (self.reservation is not None):
            raise ValueError(
                "set 'reservation' (a name or *) if and only if 'provisioning' is reservation"
            )
        return self

    @property
    def limit(self) -> float:
        """Chips as a number."""
        return UNLIMITED if self.chips == "unlimited" else float(self.chips)

    def covers(self, claim: "Claim") -> bool:
        """Say whether a claim is served from this line."""
        return (
            fnmatchcase(claim.zone, self.zone)
            and fnmatchcase(claim.accelerator, self.accelerator)
            and self.provisioning in {"*", claim.provisioning}
            and (
                claim.provisioning != "reservation"
                or self.reservation is None
                or fnmatchcase(claim.reservation or "", self.reservation)
            )
        )


class GivenCertificate(_Strict):
    """A certificate that is there without a stack that made it."""

    name: str
    region: str = "*"
    """Its region, or `global`; `*` and `?` match."""
    hostname: str = ""
    """Host that a global one is for; a gateway's is for the host of its listener."""


class World(_Strict):
    """The content of `capacity.yaml`."""

    default: Literal["plenty", "none"] = "plenty"
    """What holds where no line of `stock` matches; general machines are always plenty."""
    quota: tuple[QuotaLine, ...] = ()
    stock: tuple[StockLine, ...] = ()
    """The first line that matches a request serves it."""
    outages: tuple[str, ...] = ()
    """Zones that are down (`*` matches): their nodes go at once and nothing is created there."""
    certificates: tuple[GivenCertificate, ...] = ()
    """Certificates that are ACTIVE, made elsewhere; gateways find no others but the stacks' own."""
    zones: tuple[str, ...] = ()
    """Zones of Cloud DNS that are there, made elsewhere."""

    def is_down(self, zone: str) -> bool:
        """Say whether a zone is down."""
        return any(fnmatchcase(zone, pattern) for pattern in self.outages)

    def is_lost(self, region: str) -> bool:
        """Return whether every zone of a region is down."""
        zones = regions().get(region, ())
        return bool(zones) and all(self.is_down(zone) for zone in zones)

    @classmethod
    def load(cls, file: Path) -> "World":
        """Read a file; none means plenty of everything.

        Raises:
            ValueError: the file does not describe a world; a line for each field that is wrong.
        """
        try:
            document = read_yaml(file)
        except FileNotFoundError:
            return cls()
        try:
            return cls.model_validate({} if document is None else document)
        except ValidationError as error:
            raise ValueError(lines_of(file.name, error, document)) from None

    def save(self, file: Path) -> None:
        """Write the file in one step, so that no reader sees half of it."""
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".tmp")
        partial.write_text(yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False))
        partial.replace(file)


@dataclass(frozen=True)
class Claim:
    """One node's wish for capacity."""

    node: str
    zone: str
    accelerator: str
    """The catalogue's name, or the family of a general machine."""
    provisioning: Provisioning
    chips: int
    """Chips, or vCPUs of a general machine."""
    reservation: str | None = None

    @property
    def region(self) -> str:
        """Region of the zone."""
        return self.zone.rpartition("-")[0]

    @property
    def quota_kind(self) -> QuotaKind:
        """Which quota it counts against (rule quota.metrics)."""
        preemptible = self.provisioning in {"spot", "flex-start"}
        return "preemptible" if preemptible else "on-demand"


@dataclass(frozen=True)
class Holding:
    """A claim that was granted and not given back."""

    claim: Claim
    cluster: str
    acquired: float
    """Seconds since the epoch."""


@dataclass(frozen=True)
class Answer:
    """What Compute Engine answers to a request for machines."""

    outcome: Outcome
    code: str = ""
    """Compute Engine's error code, such as `ZONE_RESOURCE_POOL_EXHAUSTED`; empty when granted."""
    message: str = ""

    @property
    def granted(self) -> bool:
        """Whether the machines are there."""
        return self.outcome == "granted"


GRANTED = Answer("granted")


def claim_for(
    machine: Machine,
    *,
    node: str,
    zone: str,
    provisioning: Provisioning,
    reservation: str | None = None,
) -> Claim:
    """Return the claim of one node of a machine type."""
    return Claim(
        node=node,
        zone=zone,
        accelerator=machine.accelerator or machine.family,
        provisioning=provisioning,
        chips=machine.chips or machine.vcpus,
        reservation=reservation,
    )


def decide(
    world: World, holdings: Iterable[Holding], claims: Iterable[Claim], project: str
) -> Answer:
    """Answer a request for some machines, all of them or none.

    Quota is looked at before stock.
    """
    held = [holding.claim for holding in holdings]
    for claim in claims:
        answer = _decide_one(world, held, claim, project)
        if not answer.granted:
            return answer
        held.append(claim)
    return GRANTED


def _decide_one(world: World, held: list[Claim], claim: Claim, project: str) -> Answer:
    line = next((line for line in world.stock if line.covers(claim)), None)
    if world.is_down(claim.zone):
        return _stockout(claim, project)
    for limit in world.quota:
        answer = _over_quota(limit, held, claim)
        if answer is not None:
            return answer
    if line is None:
        granted = world.default == "plenty" or not is_accelerator(claim.accelerator)
    else:
        used = sum(other.chips for other in held if _serving_line(world, other) is line)
        granted = used + claim.chips <= line.limit
    if granted:
        return GRANTED
    if claim.provisioning == "reservation":
        return _no_reservation(claim, project)
    return _stockout(claim, project)


def _serving_line(world: World, claim: Claim) -> StockLine | None:
    return next((line for line in world.stock if line.covers(claim)), None)


def _over_quota(limit: QuotaLine, held: list[Claim], claim: Claim) -> Answer | None:
    wanted = _drawn(limit, claim)
    if wanted == 0:
        return None
    used = sum(_drawn(limit, other) for other in held)
    if used + wanted <= limit.most:
        return None
    where = "globally" if limit.region is None else f"in region {limit.region}"
    name = limit.label.partition(" ")[0]
    message = f"Quota '{name}' exceeded.  Limit: {limit.most}.0 {where}."
    return Answer("quota", "QUOTA_EXCEEDED", message)


def _drawn(limit: QuotaLine, claim: Claim) -> int:
    return limit.drawn(claim.accelerator, claim.region, claim.quota_kind, claim.chips)


def _stockout(claim: Claim, project: str) -> Answer:
    message = (
        f"The zone 'projects/{project}/zones/{claim.zone}' does not have enough resources "
        "available to fulfill the request.  Try a different zone, or try again later."
    )
    return Answer("stockout", "ZONE_RESOURCE_POOL_EXHAUSTED", message)


def _no_reservation(claim: Claim, project: str) -> Answer:
    message = (
        f"Specified reservation 'projects/{project}/zones/{claim.zone}/reservations/"
        f"{claim.reservation}' does not have available resources for the request."
    )
    return Answer("no-reservation", "INVALID_RESERVATION", message)


def to_take_away(world: World, holdings: Iterable[Holding]) -> dict[Holding, str]:
    """Return what the world no longer grants, with the reason, newest first.

    Spot machines are preempted and reservations withdrawn when their line shrinks; running
    on-demand and flex-start machines are left alone; a zone that is down loses everything.
    """
    taken: dict[Holding, str] = {}
    used: dict[int, float] = {}
    for holding in sorted(holdings, key=lambda item: item.acquired):
        claim = holding.claim
        if world.is_down(claim.zone):
            taken[holding] = "outage"
            continue
        line = _serving_line(world, claim)
        index = next((n for n, other in enumerate(world.stock) if other is line), -1)
        plenty = UNLIMITED if world.default == "plenty" else 0.0
        limit = plenty if line is None else line.limit
        sum_so_far = used.get(index, 0.0) + claim.chips
        revocable = claim.provisioning in {"spot", "reservation"} and is_accelerator(
            claim.accelerator
        )
        if revocable and sum_so_far > limit:
            taken[holding] = "preempted" if claim.provisioning == "spot" else "withdrawn"
            continue
        used[index] = sum_so_far
    return dict(reversed(taken.items()))
