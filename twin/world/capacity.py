"""The world's capacity: stock by location, quota limits, and allocation.

`capacity.yaml` has the current state, which scenarios rewrite. Decisions are pure functions of it
and of the list of allocations, which `capacity_ledger.py` keeps for all clusters.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

from twin.host.file_problems import lines_of, parse_yaml
from twin.world.machines import Machine, Provisioning
from twin.world.quota import QuotaKind, QuotaLine, is_accelerator
from twin.world.regions import regions
from twin.world.tables import GivenTable

Outcome = Literal["granted", "quota", "stockout", "no-reservation", "not-found", "refused"]
UNLIMITED = float("inf")
_INITIAL = Path(__file__).with_name("data") / "initial.yaml"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _path(collection: str) -> str:
    """Return the pattern of a full path in a collection of a project."""
    return f"^projects/[^/]+/{collection}/[^/]+$"


_REPOSITORY = _path("locations/[^/]+/connections/[^/]+/repositories")


def reservation_of(name: str, owner: str | None) -> str:
    """Return a reservation as stock lines name it.

    Args:
        name: Its name.
        owner: Its project; None: that of the cluster.
    """
    return name if owner is None else f"projects/{owner}/reservations/{name}"


class Clock(_Strict):
    """The date in the twin's cloud."""

    date: AwareDatetime
    """Date, in UTC."""
    since: float | None = None
    """Time at which the date was set, in seconds since the epoch; without it, the date stands."""
    speed: float = 1.0
    """Speed of Google's clock since then."""

    def now(self) -> datetime:
        """Return the current date in the twin's cloud."""
        passed = 0.0 if self.since is None else (time.time() - self.since) * self.speed
        return self.date + timedelta(seconds=passed)


class StockLine(_Strict):
    """The total stock of an accelerator in a zone."""

    zone: str
    """Zone; `*` and `?` are wildcards, and all matching zones share the chips."""
    accelerator: str
    provisioning: Provisioning | Literal["*"] = "*"
    reservation: str | None = None
    """Name of a reservation of the cluster's project, or `projects/P/reservations/NAME` of another
    project's; `*` and `?` are wildcards."""
    chips: int | Literal["unlimited"]
    start: AwareDatetime | None = None
    """Start of a reservation in calendar mode, which is empty before."""
    end: AwareDatetime | None = None
    """End of a reservation in calendar mode, which does not exist afterwards."""

    @model_validator(mode="after")
    def _reservation_is_named(self) -> "StockLine":
        if (self.provisioning == "reservation") != (self.reservation is not None):
            raise ValueError(
                "set 'reservation' (a name or *) if and only if 'provisioning' is reservation"
            )
        return self

    @model_validator(mode="after")
    def _period_is_of_a_reservation(self) -> "StockLine":
        if (self.start or self.end) and self.reservation is None:
            raise ValueError("set 'start' and 'end' only if 'provisioning' is reservation")
        return self

    @property
    def limit(self) -> float:
        """Number of chips."""
        return UNLIMITED if self.chips == "unlimited" else float(self.chips)

    def has_ended(self, now: datetime) -> bool:
        """Return whether it is a reservation in calendar mode whose period is over."""
        return self.end is not None and now >= self.end

    def at(self, now: datetime) -> "StockLine":
        """Return the line with the chips that it has at a time before its end."""
        is_early = self.start is not None and now < self.start
        return self.model_copy(update={"chips": 0}) if is_early else self

    def covers(self, claim: "Claim") -> bool:
        """Return whether this line serves a claim."""
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
    """A certificate that exists without a stack."""

    name: str
    region: str = "*"
    """Region, or `global`; `*` and `?` are wildcards."""
    hostname: str = ""
    """Host name of a global certificate; a gateway's has the host name of its listener."""


class World(_Strict):
    """The content of `capacity.yaml`."""

    default: Literal["plenty", "none"] = "plenty"
    """Default if no line of `stock` matches; general-purpose machines are always available, and
    reservations never."""
    quota: tuple[QuotaLine, ...] = ()
    stock: tuple[StockLine, ...] = ()
    """Stock lines; the first that matches a request serves it."""
    clock: Clock | None = None
    """Date in the twin's cloud. By default, the date of this machine."""
    outages: tuple[str, ...] = ()
    """Zones that are down (`*` is a wildcard): their nodes are lost, and none are created there."""
    certificates: tuple[GivenCertificate, ...] = ()
    """ACTIVE certificates outside stacks; gateways find only these and those of stacks."""
    zones: tuple[str, ...] = ()
    """Cloud DNS zones outside stacks."""
    snapshots: tuple[Annotated[str, Field(pattern=_path("global/snapshots"))], ...] = ()
    """Snapshots of disks outside stacks, as `projects/P/global/snapshots/NAME`."""
    images: tuple[Annotated[str, Field(pattern=_path("global/images"))], ...] = ()
    """Disk images outside stacks, as `projects/P/global/images/NAME`."""
    image_tags: tuple[Annotated[str, Field(pattern=r"^[^/@]+/[^@]+:[^/@:]+$")], ...] = ()
    """Tags of engine images that exist in addition to those that the twin knows, as
    `docker.io/vllm/vllm-openai:v0.40.0`."""
    build_repositories: tuple[Annotated[str, Field(pattern=_REPOSITORY)], ...] = ()
    """Repositories of Cloud Build connections outside stacks, as
    `projects/P/locations/L/connections/C/repositories/NAME`."""
    secret_versions: tuple[Annotated[str, Field(pattern=_path("secrets/[^/]+/versions"))], ...] = ()
    """Secret versions outside stacks, as `projects/P/secrets/NAME/versions/VERSION`."""
    service_accounts: tuple[
        Annotated[str, Field(pattern=r"^[^@]+@[^.@]+\.iam\.gserviceaccount\.com$")], ...
    ] = ()
    """Service accounts outside stacks, as `NAME@PROJECT.iam.gserviceaccount.com`."""
    tables: tuple[GivenTable, ...] = ()
    """Tables of BigQuery outside stacks, with their datasets."""

    def gives(self, path: str) -> bool:
        """Return whether a snapshot, image, repository, secret or table exists outside stacks."""
        secrets = {each.partition("/versions/")[0] for each in self.secret_versions}
        lists = (self.snapshots, self.images, self.build_repositories, self.secret_versions)
        return path in secrets.union(*lists, (each.path for each in self.tables))

    def has_reservation(self, zone: str, accelerator: str, name: str) -> bool:
        """Return whether a stock line lists a reservation, with or without free machines.

        Args:
            zone: Zone of the reservation.
            accelerator: Accelerator that it reserves.
            name: Its name; with its project if that is not the cluster's, as in a stock line.
        """
        return any(
            line.reservation is not None
            and fnmatchcase(zone, line.zone)
            and fnmatchcase(accelerator, line.accelerator)
            and fnmatchcase(name, line.reservation)
            for line in self.stock
        )

    def now(self) -> datetime:
        """Return the date in the twin's cloud."""
        return datetime.now(UTC) if self.clock is None else self.clock.now()

    def current(self, ahead: timedelta = timedelta()) -> "World":
        """Return the world with its current stock (rule reservation.calendar).

        Args:
            ahead: Time before the end of a reservation from which it counts as ended.
        """
        if not any(line.start or line.end for line in self.stock):
            return self
        now = self.now()
        stock = tuple(each.at(now) for each in self.stock if not each.has_ended(now + ahead))
        return self.model_copy(update={"stock": stock})

    def ended(self, ahead: timedelta = timedelta()) -> tuple[StockLine, ...]:
        """Return the reservations that are missing in `current`."""
        until = self.now() + ahead
        return tuple(line for line in self.stock if line.has_ended(until))

    def is_down(self, zone: str) -> bool:
        """Return whether a zone is down."""
        return any(fnmatchcase(zone, pattern) for pattern in self.outages)

    def is_lost(self, region: str) -> bool:
        """Return whether every zone of a region is down."""
        zones = regions().get(region, ())
        return bool(zones) and all(self.is_down(zone) for zone in zones)

    @classmethod
    def load(cls, file: Path) -> "World":
        """Read a file; without one, the world is the initial one (`data/initial.yaml`).

        Raises:
            ValueError: the file is not valid; the message has one line per invalid field.
        """
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return initial()
        return _parsed(file.name, content)

    def save(self, file: Path) -> None:
        """Write the file atomically, so that no reader sees a partial file."""
        file.parent.mkdir(parents=True, exist_ok=True)
        partial = file.with_suffix(".tmp")
        partial.write_text(yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False))
        partial.replace(file)


@lru_cache(maxsize=16)  # every scan of every autoscaler reads the file, which seldom changes
def _parsed(name: str, content: bytes) -> World:
    document = parse_yaml(name, content)
    try:
        return World.model_validate({} if document is None else document)
    except ValidationError as error:
        raise ValueError(lines_of(name, error, document)) from None


@cache
def initial() -> World:
    """Return the world of a new twin."""
    return World.model_validate(yaml.safe_load(_INITIAL.read_text()))


@dataclass(frozen=True)
class Claim:
    """A node's request for capacity."""

    node: str
    zone: str
    accelerator: str
    """Catalog name of the accelerator, or family of a general-purpose machine."""
    provisioning: Provisioning
    chips: int
    """Number of chips, or vCPUs of a general-purpose machine."""
    reservation: str | None = None

    @property
    def region(self) -> str:
        """Region of the zone."""
        return self.zone.rpartition("-")[0]

    @property
    def quota_kind(self) -> QuotaKind:
        """Quota against which it counts (rule quota.metrics)."""
        preemptible = self.provisioning in {"spot", "flex-start"}
        return "preemptible" if preemptible else "on-demand"


@dataclass(frozen=True)
class Holding:
    """A granted claim that is not released."""

    claim: Claim
    cluster: str
    acquired: float
    """Seconds since the epoch."""


@dataclass(frozen=True)
class Answer:
    """The response of Compute Engine to a request for machines."""

    outcome: Outcome
    code: str = ""
    """Compute Engine error code, such as `ZONE_RESOURCE_POOL_EXHAUSTED`; empty if granted."""
    message: str = ""

    @property
    def granted(self) -> bool:
        """Whether the machines are granted."""
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
    world: World,
    holdings: Iterable[Holding],
    claims: Iterable[Claim],
    project: str,
    ahead: timedelta = timedelta(),
) -> Answer:
    """Return the response to a request for machines, all of them or none.

    Quota is checked before stock.

    Args:
        world: The world.
        holdings: What is allocated.
        claims: The request.
        project: Project name for error messages.
        ahead: Time before the end of a reservation from which it creates no machines.
    """
    world = world.current(ahead)
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
    if claim.provisioning == "reservation" and not world.has_reservation(
        claim.zone, claim.accelerator, claim.reservation or ""
    ):
        return _unknown_reservation(claim)
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
    return Answer("quota", "QUOTA_EXCEEDED", quota_message(limit))


def quota_message(limit: QuotaLine) -> str:
    """Return Google's error of a quota that is exceeded."""
    where = "globally" if limit.region is None else f"in region {limit.region}"
    name = limit.label.partition(" ")[0]
    return f"Quota '{name}' exceeded.  Limit: {limit.most}.0 {where}."


def _drawn(limit: QuotaLine, claim: Claim) -> int:
    return limit.drawn(claim.accelerator, claim.region, claim.quota_kind, claim.chips)


def _stockout(claim: Claim, project: str) -> Answer:
    message = (
        f"The zone 'projects/{project}/zones/{claim.zone}' does not have enough resources "
        "available to fulfill the request.  Try a different zone, or try again later."
    )
    return Answer("stockout", "ZONE_RESOURCE_POOL_EXHAUSTED", message)


def _no_reservation(claim: Claim, project: str) -> Answer:
    where, _, name = (claim.reservation or "").rpartition("/reservations/")
    message = (
        f"Specified reservation '{where or f'projects/{project}'}/zones/{claim.zone}/reservations/"
        f"{name}' does not have available resources for the request."
    )
    return Answer("no-reservation", "INVALID_RESERVATION", message)


def _unknown_reservation(claim: Claim) -> Answer:
    pool = claim.node.rpartition("-")[0]
    message = (
        f'Google Compute Engine: reservation "{claim.reservation}" not found for node pool '
        f'"{pool}" at zone "{claim.zone}".'
    )
    return Answer("not-found", "NOT_FOUND", message)


def to_take_away(
    world: World, holdings: Iterable[Holding], ahead: timedelta = timedelta()
) -> dict[Holding, str]:
    """Return the allocations that are no longer granted, with the reason, newest first.

    If a line shrinks, Spot machines are preempted and reservations withdrawn; running on-demand and
    flex-start machines are kept. A zone that is down loses all machines, and so does a reservation
    in calendar mode that ends.

    Args:
        world: The world.
        holdings: What is allocated.
        ahead: Notice before the end of a reservation.
    """
    over, world = world.ended(ahead), world.current(ahead)
    taken: dict[Holding, str] = {}
    used: dict[int, float] = {}
    for holding in sorted(holdings, key=lambda item: item.acquired):
        claim = holding.claim
        if world.is_down(claim.zone):
            taken[holding] = "outage"
            continue
        if claim.provisioning == "reservation" and any(line.covers(claim) for line in over):
            name = claim.reservation or ""
            if not world.has_reservation(claim.zone, claim.accelerator, name):
                taken[holding] = "ended"
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
