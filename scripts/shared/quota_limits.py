"""Quota limits of the twin's world or of a real project.

Cloud Quotas has every limit, also by family, but no usage. Compute Engine has usage, and limits
without a family. Both are read; without Cloud Quotas, limits by family are unknown.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from infra.estimate.quota_check import Limit
from infra.estimate.quota_needs import Need, needs
from infra.plan import Plan
from scripts.shared.google_cloud import Cloud, CloudError, Json, NotFound, ServiceDisabled
from scripts.shared.scenario_files import scenario_file
from scripts.terminal.console import CommandError
from twin.host.paths import TwinPaths
from twin.world import scenario as scenarios
from twin.world.capacity import Holding, World
from twin.world.capacity_ledger import Ledger

_COMPUTE: Final = "compute.googleapis.com"
_PAGE: Final = "500"
_UNLIMITED: Final = -1
_NO_LIMIT: Final = Limit(None)
_COUNTED_UNITS: Final = ("chips", "GPUs", "machines", "vCPUs")
"""Quotas that the twin's ledger counts: machines only."""


class Against(StrEnum):
    """Source of the limits for a check."""

    CLOUD = "cloud"
    TWIN = "twin"


class TwinLimits:
    """Limits of a twin's world, from `quota` in `capacity.yaml`."""

    def __init__(self, world: World, holdings: list[Holding]) -> None:
        """Take the world and the allocated machines."""
        self._world, self._holdings = world, holdings
        self.notes: list[str] = []

    @classmethod
    def of(cls, paths: TwinPaths, world: World | None = None) -> "TwinLimits":
        """Return the limits of a twin, running or not.

        Args:
            paths: Paths of the twin.
            world: World to use instead of its file.
        """
        found = World.load(paths.capacity_file) if world is None else world
        return cls(found, Ledger.everything(paths))

    def __call__(self, need: Need) -> Limit:
        """Return the limit of a need's quota."""
        lines = [
            line
            for line in self._world.quota
            if line.label == need.metric.label and line.region == need.region
        ]
        if not lines:
            return _NO_LIMIT
        line = min(lines, key=lambda each: each.most)
        if need.metric.unit not in _COUNTED_UNITS:
            return Limit(line.most)
        held = [holding.claim for holding in self._holdings]
        used = sum(
            line.drawn(claim.accelerator, claim.region, claim.quota_kind, claim.chips)
            for claim in held
        )
        return Limit(line.most, used)


def twin_limits(scenario: str = "") -> TwinLimits:
    """Return the limits of this checkout's twin, or those of a scenario.

    Raises:
        CommandError: The scenario does not exist, or a file of the twin's world is invalid.
    """
    try:
        world = scenarios.load(scenario_file(scenario)).start if scenario else None
        return TwinLimits.of(TwinPaths.default(), world)
    except ValueError as error:
        raise CommandError(str(error)) from None


class CloudLimits:
    """Limits of a Google Cloud project."""

    def __init__(
        self, cloud: Cloud, regions: list[str], services: Iterable[str] = (_COMPUTE,)
    ) -> None:
        """Read the limits.

        Args:
            cloud: Project to read.
            regions: Regions of Compute Engine.
            services: Services whose quotas Cloud Quotas lists.

        Raises:
            CloudError: Google refused.
        """
        self.notes: list[str] = []
        self._infos: dict[str, Json] = {}
        try:
            self._infos = {str(info.get("quotaId")): info for info in _infos(cloud, services)}
        except ServiceDisabled as error:
            self.notes.append(
                f"{error}: limits by family of machines or chips are unknown; run gcloud services"
                f" enable cloudquotas.googleapis.com --project={cloud.project}"
            )
        start = f"compute.googleapis.com/compute/v1/projects/{cloud.project}"
        self._listed: dict[tuple[str, str | None], Limit] = dict(
            _listed(None, cloud.get(start).get("quotas", []))
        )
        for region in regions:
            try:
                found = cloud.get(f"{start}/regions/{region}")
            except NotFound:
                raise CloudError(f"region {region}: is not available to the project") from None
            self._listed.update(_listed(region, found.get("quotas", [])))

    def __call__(self, need: Need) -> Limit | None:
        """Return the limit and the usage of a need's quota."""
        listed = None
        if not need.metric.dimensions:  # those lists have no families
            listed = self._listed.get((need.metric.name, need.region))
        info = self._infos.get(need.metric.id)
        value = None if info is None else limit_in(info, need.dimensions)
        if value is None:
            return listed
        used = None if listed is None else listed.used
        return Limit(None if value == _UNLIMITED else value, used)


def quota_services(plan: Plan) -> tuple[str, ...]:
    """Return the services whose quotas a stack needs, in the order of its needs."""
    return tuple(dict.fromkeys((_COMPUTE, *(need.metric.service for need in needs(plan)))))


def _infos(cloud: Cloud, services: Iterable[str]) -> Iterator[Json]:
    """Yield all quotas of some services."""
    for service in services:
        where = f"projects/{cloud.project}/locations/global/services/{service}/quotaInfos"
        yield from cloud.pages(
            f"cloudquotas.googleapis.com/v1/{where}", "quotaInfos", pageSize=_PAGE
        )


def _listed(region: str | None, quotas: Any) -> Iterator[tuple[tuple[str, str | None], Limit]]:
    for quota in quotas:
        value = int(quota.get("limit", 0))
        limit = Limit(None if value == _UNLIMITED else value, int(quota.get("usage", 0)))
        yield (str(quota.get("metric")), region), limit


def limit_in(info: Json, wanted: Mapping[str, str]) -> int | None:
    """Return a quota's value for some dimensions: -1 for no limit, None without a value.

    The entry with the most dimensions applies; in a tie, the entry with the region
    (docs.cloud.google.com/docs/quotas/configure-dimensions). A value of 0 is left out of the JSON.
    """
    best: tuple[int, bool] | None = None
    found: int | None = None
    entries: list[Json] = info.get("dimensionsInfos") or []
    for entry in entries:
        has: dict[str, str] = entry.get("dimensions") or {}
        places: list[str] = entry.get("applicableLocations") or []
        if not _covers(has, places, wanted):
            continue
        rank = (len(has), "region" in has)
        if best is None or rank > best:
            details: Json = entry.get("details") or {}
            best, found = rank, int(details.get("value", 0))
    return found


def _covers(has: Mapping[str, str], places: list[str], wanted: Mapping[str, str]) -> bool:
    """Return whether an entry is about a region and the other dimensions wanted."""
    region = wanted.get("region")
    if "region" not in has and places and region is not None and region not in places:
        return False
    return all(wanted.get(key, "").lower() == value.lower() for key, value in has.items())


def cloud_limits(plan: Plan) -> CloudLimits:
    """Return the limits of a stack's project.

    Raises:
        CommandError: Google refused.
    """
    # Google's clients take a second to load, and the twin's limits do not need them.
    from scripts.shared import google_clients  # noqa: PLC0415

    try:
        with google_clients.plain_errors():
            cloud = google_clients.connect(plan.platform.project)
            return CloudLimits(cloud, list(plan.regions), quota_services(plan))
    except CloudError as error:
        raise CommandError(f"{plan.platform.project}: {error}") from None
