"""Cost of a whole stack: accelerator VMs and everything else, per hour."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Final

from gke_inference.catalogue.files.buckets import place_of
from gke_inference.catalogue.platform_prices import UnitPrice, machine_price
from gke_inference.catalogue.prices import (
    COMMITTABLE,
    COMMITTED_YEARS,
    Price,
    committed_price,
    rung_price,
)
from gke_inference.catalogue.quotas import boot_disk
from gke_inference.catalogue.rungs import Rung
from gke_inference.storage.rules import class_steps
from infra.estimate.calendar_costs import Booking, bookings, idle_parts
from infra.estimate.cost_parts import (
    ACCELERATORS,
    CLUSTER,
    GROUPS,
    LABELLED,
    OBSERVABILITY,
    STORAGE,
    Count,
    Nodes,
    Part,
    always,
    backend_parts,
    batch_parts,
    client_parts,
    front_parts,
    guardrail_parts,
    listed,
    network_parts,
    part,
    personal_parts,
    replicas,
    run_parts,
    stream_parts,
)
from infra.estimate.usage import DEFAULT_USAGE, Usage
from infra.plan import Plan, RegionPlan, ServedModel
from infra.plan.cloud_run import RunService
from infra.plan.optimization import trained_models
from infra.plan.storage import ArchivePlan, StoragePlan
from infra.stack import Covers, Form, Images, Size
from planner.amount import NOTHING, Amount, Missing, priced, total, without_price
from planner.choice.cost import (
    BUFFER,
    FIELDS,
    HOURS_PER_MONTH,
    MEAN_SHARE,
    Bill,
    Line,
    Served,
    bill,
    outdated,
)

_MILLION: Final = 1e6
_BYTES_PER_GIB = 2**30
_GIB = "GiB"
_MONTH_DAYS = 365 / 12
_YEAR_DAYS = 365


@dataclass(frozen=True)
class Commitment:
    """Always-on VMs of one kind in a region, with costs in US dollars per hour."""

    what: str
    region: str
    count: int
    """Number of replicas or nodes."""
    on_demand: Amount
    by_years: Mapping[int, Amount]

    @property
    def is_published(self) -> bool:
        """Whether all of its prices are published, which a comparison needs."""
        return not any(each.missing for each in (self.on_demand, *self.by_years.values()))


@dataclass(frozen=True)
class Commitments:
    """Commitment discounts on a stack's minimum."""

    each: tuple[Commitment, ...]

    @property
    def on_demand(self) -> Amount:
        """On-demand cost in US dollars per hour of the VMs with published commitment prices."""
        return total(one.on_demand if one.is_published else NOTHING for one in self.each)

    @property
    def missing(self) -> tuple[Missing, ...]:
        """Items without a published price, excluded from all totals."""
        return self.every.missing

    @property
    def every(self) -> Amount:
        """All amounts together, for the items that they exclude and their unverified prices."""
        return total(
            amount for one in self.each for amount in (one.on_demand, *one.by_years.values())
        )

    def committed(self, years: int) -> Amount:
        """Return the cost in US dollars per hour of the same VMs with a commitment."""
        return total(one.by_years[years] if one.is_published else NOTHING for one in self.each)


@dataclass(frozen=True)
class GroupCost:
    """One cost group of a stack, in US dollars per hour."""

    name: str
    """One of `infra.estimate.cost_parts.GROUPS`."""
    minimum: Amount
    expected: Amount
    maximum: Amount

    def total(self, field: str) -> Amount:
        """Return the `minimum`, `expected` or `maximum`, in US dollars per hour."""
        return {"minimum": self.minimum, "expected": self.expected, "maximum": self.maximum}[field]


@dataclass(frozen=True)
class StackCost:
    """Cost of a stack."""

    bill: Bill
    """Bill of the accelerator VMs."""
    parts: tuple[Part, ...]
    """Everything else, in the order of `GROUPS`."""
    commitments: Commitments
    usage: Usage
    """Usage assumptions."""
    bookings: tuple[Booking, ...] = ()
    """Reservations in calendar mode that the stack requests."""

    def total(self, field: str) -> Amount:
        """Return the total `minimum`, `expected` or `maximum`, in US dollars per hour."""
        return total((self.bill.total(field), *(getattr(part, field) for part in self.parts)))

    def counted(self, covers: Covers, field: str) -> Amount:
        """Return the `minimum`, `expected` or `maximum` that the budget covers, per hour."""
        if covers is Covers.PROJECT:
            return self.total(field)
        return total(group.total(field) for group in self.groups if group.name in LABELLED)

    @property
    def groups(self) -> tuple[GroupCost, ...]:
        """All cost groups."""
        return tuple(self._group(name) for name in GROUPS)

    @property
    def by_group(self) -> dict[str, GroupCost]:
        """Cost groups by name."""
        return {group.name: group for group in self.groups}

    @property
    def missing(self) -> tuple[Missing, ...]:
        """Items without a published price, excluded from all totals."""
        return total(self.total(field) for field in FIELDS).missing

    @property
    def unverified(self) -> tuple[Missing, ...]:
        """Items whose price is unverified, of the totals and of the commitments."""
        totals = total(self.total(field) for field in FIELDS)
        return (totals + self.commitments.every).unverified

    def outdated(self, today: date) -> dict[str, list[str]]:
        """Return price sources that are `stale` or `undated`, with their dates."""
        machines = self.bill.sources
        return outdated((*machines, *(part.source for part in self.parts if part.source)), today)

    def _group(self, name: str) -> GroupCost:
        mine = [part for part in self.parts if part.group == name]
        sums = [total(getattr(part, field) for part in mine) for field in FIELDS]
        if name == ACCELERATORS:
            sums = [
                self.bill.total(field) + of_parts
                for field, of_parts in zip(FIELDS, sums, strict=True)
            ]
        return GroupCost(name, *sums)


def stack_cost(
    plan: Plan, mean_share: float = MEAN_SHARE, usage: Usage = DEFAULT_USAGE
) -> StackCost:
    """Return the cost of a stack: for a platform without models, for a team only its models.

    Args:
        plan: The resolved stack.
        mean_share: Mean over peak traffic, as in `planner.choice.cost.bill`.
        usage: Usage assumptions.

    Raises:
        gke_inference.catalogue.input_error.InputError: The share is not above 0 and at most 1.
    """
    machines = bill(served(plan), mean_share)
    parts = _parts(plan, machines, mean_share, usage)
    ordered = tuple(sorted(parts, key=lambda part: GROUPS.index(part.group)))
    return StackCost(machines, ordered, _commitments(plan, machines), usage, bookings(plan))


def _parts(plan: Plan, machines: Bill, mean_share: float, usage: Usage) -> Iterator[Part]:
    images = plan.images.settings if plan.has_clusters else None
    yield from idle_parts(plan, machines)
    if plan.has_clusters:
        yield from _cluster_parts(plan.regions.values(), mean_share)
    for name, region in plan.regions.items():
        system = _system_nodes(region, mean_share)
        nodes = [*([system] if system else []), *_accelerator_nodes(region, machines)]
        if plan.has_clusters:
            yield from network_parts(
                plan.front, name, nodes, usage, has_nat=plan.network.is_created
            )
            yield from client_parts(region)
            yield from guardrail_parts(plan.guardrails, region)
            yield from stream_parts(region)
            yield from _queue_parts(region)
            yield from _optimization_parts(region)
            yield from batch_parts(region)
            yield from personal_parts(region)
            yield from run_parts(plan.backends, region, mean_share)
        has_buckets = plan.has_clusters
        runs = () if plan.backends is None else plan.backends.services_in(name)
        yield from _storage_parts(region, runs, nodes, usage, images, has_buckets=has_buckets)
        scrape = region.serving.scrape_seconds
        yield from _observability_parts(name, machines, nodes, usage, scrape)
    yield from backend_parts(plan.backends)
    if plan.has_clusters:
        yield from front_parts(plan.front, usage)
        yield from _project_parts(plan.storage, plan.project.id)


def served(plan: Plan) -> list[Served]:
    """Return every model, including canaries, in each of its regions."""
    return [
        line
        for every in plan.models.values()
        for model in every
        for role in model.roles
        for line in _lines(role)
    ]


def _lines(one: ServedModel) -> Iterator[Served]:
    rungs = tuple(one.rungs.values())
    if one.form is Form.PAIRED:
        tpus, gpus = (tuple(one.capacity.of_kind(kind).values()) for kind in ("tpu", "gpu"))
        yield Served(one.name, one.region, tpus + gpus, one.minimum, one.maximum)
        if one.standby:
            yield Served(one.name, one.region, gpus, one.standby, one.standby, "standby")
    else:
        role = "prefill" if one.role == "prefill" else "serve"
        yield Served(one.name, one.region, rungs, one.minimum, one.maximum, role)
    if one.buffer:  # refilled after use, so it costs the same at any load
        kept = tuple(one.buffer_rungs.values())
        yield Served(one.name, one.region, kept, one.buffer, one.buffer, BUFFER)


def _system_nodes(region: RegionPlan, mean_share: float) -> Nodes | None:
    """Return the nodes without accelerators, or None if the stack creates none.

    Args:
        region: A region of the plan.
        mean_share: Mean over peak traffic, as in `planner.choice.cost.bill`.
    """
    nodes = region.system_nodes
    if nodes is None:
        return None
    least, most = nodes.minimum, nodes.maximum
    count = Count(least, max(least, math.ceil(most * mean_share)), most)
    return Nodes(nodes.machine_type, nodes.disk_type, nodes.disk_gib, count)


def _accelerator_nodes(region: RegionPlan, bill: Bill) -> Iterator[Nodes]:
    """Yield the nodes of each bill line in a region, on the rung of its price."""
    for line in bill.lines:
        rung = line.rung
        if line.served.region != region.name or rung is None:
            continue
        kind, gib = _disk(rung)
        yield Nodes(rung.machine_type, kind, gib, replicas(line) * rung.hosts)


def _disk(rung: Rung) -> tuple[str, int]:
    kind, gib = boot_disk(rung.machine_type)
    return rung.boot_disk_type or kind, gib


def _cluster_parts(regions: Iterable[RegionPlan], mean_share: float) -> Iterator[Part]:
    """Yield the management fee and system nodes of each cluster that the stack creates."""
    for region in regions:
        if region.settings.existing.cluster is not None:
            continue
        yield listed(CLUSTER, "management fee", region.name, "cluster-fee", always(1))
        nodes = _system_nodes(region, mean_share)
        if nodes is None:
            what = "what Autopilot takes for pods without accelerators, and beside accelerators"
            yield part(CLUSTER, what, region.name, None, always(1))
            continue
        machine = nodes.machine_type
        price = machine_price(machine, region.name)
        yield part(
            CLUSTER, f"system nodes {machine}", region.name, price, nodes.count, unit="nodes"
        )


def _queue_parts(region: RegionPlan) -> Iterator[Part]:
    """Yield the nodes of a region's queues, at the price of each capacity's first rung.

    Job hours are not known in advance, so the expected cost is zero.
    """
    for queue in region.queues:
        for flavor in queue.flavors:
            rung = next(iter(flavor.capacity.rungs.values()))
            found = rung_price(rung, region.name)
            price = None
            if found is not None:
                price = UnitPrice(
                    found.usd_per_hour, "hour", found.source, found.date, found.confidence
                )
            what = f"queue {queue.name}, {rung.label}, while jobs run"
            yield part(CLUSTER, what, region.name, price, Count(0, 0, flavor.nodes), unit="nodes")


def _optimization_parts(region: RegionPlan) -> Iterator[Part]:
    """Yield the price of an hour of each job that optimizes models.

    It is that of a node of the first rung of the jobs' queue. The amounts are zero, because the
    line of the queue has these nodes already.
    """
    plan = region.optimization
    if plan is None:
        return
    queue = next(each for each in region.queues if each.name == plan.settings.queue)
    rung = next(iter(queue.flavors[0].capacity.rungs.values()))
    found = rung_price(rung, region.name)
    for kind, name, _ in trained_models(plan.settings):
        price, usd = None, "without a price"
        if found is not None:
            usd = f"${found.usd_per_hour:.2f}"
            price = UnitPrice(
                found.usd_per_hour, "hour", found.source, found.date, found.confidence
            )
        what = f"{kind} {name}, an hour on {rung.label}: {usd}, as queue {queue.name}"
        yield part(CLUSTER, what, region.name, price, always(0), unit="jobs")


def _observability_parts(
    region: str, bill: Bill, nodes: Iterable[Nodes], usage: Usage, scrape_seconds: int
) -> Iterator[Part]:
    """Yield the observability costs of a region.

    Args:
        region: Name of the region.
        bill: Bill of the stack, for its replicas.
        nodes: All nodes of the region.
        usage: Usage assumptions.
        scrape_seconds: Scrape interval.
    """
    every = sum((one.count for one in nodes), start=always(0))
    logs = every * usage.logs_gib_per_node
    yield listed(OBSERVABILITY, "Cloud Logging", region, "logging", logs, unit="GiB a month")
    here = (replicas(line) for line in bill.lines if line.served.region == region)
    readings = HOURS_PER_MONTH * 3600 / scrape_seconds
    millions = sum(here, start=always(0)) * (usage.series_per_replica * readings / _MILLION)
    what, item, unit = "Managed Prometheus", "prometheus-samples", "million samples a month"
    yield listed(OBSERVABILITY, what, region, item, millions, unit=unit)


def _storage_parts(
    region: RegionPlan,
    runs: Iterable[RunService],
    nodes: Iterable[Nodes],
    usage: Usage,
    images: Images | None,
    *,
    has_buckets: bool,
) -> Iterator[Part]:
    """Yield the storage costs of a region.

    Args:
        region: A region of the plan.
        runs: Its models on Cloud Run.
        nodes: All nodes of the region, for their boot disks.
        usage: Usage assumptions.
        images: Settings of the repositories that the stack creates.
        has_buckets: Whether the stack creates the buckets of weights.
    """
    name = region.name
    weights = always(round(_weights_gib(region, runs), 1))
    yield listed(STORAGE, "weights in Cloud Storage", name, "gcs-standard", weights, unit=_GIB)
    for zone in region.storage.cache_zones if has_buckets else ():
        # what is read in the zone, which is at most all weights of the region
        what = f"Anywhere Cache {zone}, at most"
        yield listed(STORAGE, what, name, "anywhere-cache", weights, unit=_GIB)
    yield from _disks(region)
    filestore = region.storage.filestore
    if filestore is not None:
        tier, size = filestore.tier.value, always(filestore.capacity_gib)
        yield listed(STORAGE, f"Filestore {tier}", name, f"filestore-{tier}", size, unit=_GIB)
    lustre = region.storage.lustre
    if lustre is not None:
        tier, size = f"lustre-{lustre.mb_per_second_per_tib}", always(lustre.capacity_gib)
        what = f"Managed Lustre {lustre.mb_per_second_per_tib} MB/s per TiB"
        yield listed(STORAGE, what, name, tier, size, unit=_GIB)
    by_type: dict[str, Count] = {}
    for one in nodes:
        gib = one.count * one.disk_gib
        by_type[one.disk_type] = by_type.get(one.disk_type, always(0)) + gib
    for kind, gib in by_type.items():
        yield listed(STORAGE, f"boot disks {kind}", name, kind, gib, unit=_GIB)
    if images is not None:
        what, size = "container images in Artifact Registry", usage.images_gib
        if size is not None:
            yield listed(STORAGE, what, name, "artifact-registry", always(size), unit=_GIB)
            return
        yield part(STORAGE, what, name, None, always(1))
        if images.pull_through is not None:
            what = "images pulled through Artifact Registry"
            yield part(STORAGE, what, name, None, always(1))


def _project_parts(storage: StoragePlan, project: str) -> Iterator[Part]:
    """Yield the project-wide storage costs."""
    cache = storage.image_cache
    if cache is not None and cache.project == project:
        yield part(STORAGE, f"disk image {cache.name}", "", None, always(1))
    yield from _archives(storage.archives)


def _archives(archives: Mapping[str, ArchivePlan]) -> Iterator[Part]:
    """Yield the costs of archives once they have been filled for a year, or until deletion.

    Operations, retrieval and replication are left out, and so is data whose amount nobody stated.
    """
    for name, each in archives.items():
        archive = each.settings
        place = place_of(archive.location)
        what, gib = f"archive {name}", archive.expected_gib_per_month
        if place is None or gib is None:
            yield part(STORAGE, what, "", None, always(1), unit="buckets")
            continue
        kind = {"dual-region": "dual-", "multi-region": "multi-"}.get(place.kind, "")
        found = class_steps(archive)
        last = archive.delete_after_days or max(_YEAR_DAYS, found[-1][1])
        ends = [*(age for _, age in found[1:]), last]
        for (cold, start), end in zip(found, ends, strict=True):
            size = always(round(gib * max(0, min(end, last) - start) / _MONTH_DAYS, 1))
            item = f"gcs-{kind}{cold}"
            for region in place.regions or (place.location,):
                yield listed(STORAGE, f"{what}: {cold}", region, item, size, unit=_GIB)


def _weights_gib(region: RegionPlan, runs: Iterable[RunService]) -> float:
    """Return the size of all weights in a region's bucket. Shared weights count once."""
    sizes: dict[str, Size] = {each.weights: each.settings.size for each in runs}
    for served in region.served:
        sizes[served.weights] = served.settings.size
        for further in served.settings.further_models.values():
            sizes[region.names.weights(further.weights, served.region)] = further.size
    return sum(size.parameters_billion * size.bits / 8 for size in sizes.values()) * (
        1e9 / _BYTES_PER_GIB
    )


def _disks(region: RegionPlan) -> Iterator[Part]:
    """Yield the weight disks, one per zone, and the project's snapshots."""
    for served in region.served:
        disk, zones = served.settings.disk, served.disk_zones
        if disk is None or not zones:
            continue
        of = f"of {served.name}"
        size = always(disk.size_gib * len(zones))
        rate = always(disk.throughput_mib_per_second * len(zones))
        item = "hyperdisk-ml"
        yield listed(STORAGE, f"Hyperdisk ML {of}", region.name, item, size, unit=_GIB)
        what, item = f"Hyperdisk ML throughput {of}", "hyperdisk-ml-throughput"
        yield listed(STORAGE, what, region.name, item, rate, unit="MiB/s")
        if served.is_first and _is_own(disk.snapshot, region.project.id):
            most = always(disk.size_gib)
            what = f"snapshot {of}, at most"
            yield listed(STORAGE, what, region.name, "snapshot", most, unit=_GIB)


def _is_own(snapshot: str, project: str) -> bool:
    """Return whether a project pays for a snapshot. A name without a path is the project's."""
    return "/" not in snapshot or snapshot.startswith(f"projects/{project}/")


def _commitments(plan: Plan, bill: Bill) -> Commitments:
    """Return the costs of a stack's minimum VMs, on demand and committed.

    Excludes Spot and flex-start VMs, disks, networks and buckets.

    Args:
        plan: The resolved stack.
        bill: Bill of the same stack.
    """
    found: dict[tuple[str, str], Commitment] = {}
    for one in (*map(_of_line, bill.lines), *_of_system_nodes(plan.regions.values())):
        if one is None or not one.count:
            continue
        key = (one.what, one.region)
        found[key] = one if key not in found else _joined(found[key], one)
    return Commitments(tuple(found.values()))


def _of_line(line: Line) -> Commitment | None:
    served, rung = line.served, line.rung
    if rung is None or rung.provisioning not in COMMITTABLE:
        return None
    return _commitment(
        rung.label.removesuffix(f" {rung.provisioning}"),
        served.region,
        served.minimum,
        rung_price(rung, served.region),
        {years: committed_price(rung, served.region, years) for years in COMMITTED_YEARS},
    )


def _of_system_nodes(regions: Iterable[RegionPlan]) -> list[Commitment]:
    found: list[Commitment] = []
    for region in regions:
        nodes = region.system_nodes
        if nodes is not None:
            machine = nodes.machine_type
            by_years = {
                years: machine_price(machine, region.name, years) for years in COMMITTED_YEARS
            }
            listed = machine_price(machine, region.name)
            found.append(_commitment(machine, region.name, nodes.minimum, listed, by_years))
    return found


def _commitment(
    what: str,
    region: str,
    count: int,
    listed: Price | UnitPrice | None,
    by_years: Mapping[int, Price | UnitPrice | None],
) -> Commitment:
    return Commitment(
        what,
        region,
        count,
        _committed_amount(listed, what, region) * count,
        {
            years: _committed_amount(price, f"commitments of {what}", region) * count
            for years, price in by_years.items()
        },
    )


def _committed_amount(price: Price | UnitPrice | None, what: str, region: str) -> Amount:
    if price is None:
        return without_price(what, region)
    usd = price.usd_per_hour if isinstance(price, Price) else price.usd
    return priced(usd, price, what, region)


def _joined(one: Commitment, other: Commitment) -> Commitment:
    return Commitment(
        one.what,
        one.region,
        one.count + other.count,
        one.on_demand + other.on_demand,
        {years: amount + other.by_years[years] for years, amount in one.by_years.items()},
    )
