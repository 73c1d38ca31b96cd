"""What the models of a stack cost and how long they take to start, as the planner reckons it."""

from collections.abc import Iterator
from dataclasses import dataclass

from gke_inference.catalogue.rungs import Rung
from infra.plan.canary import with_canaries
from infra.plan.capacity import checked_rungs, form_in, prefill_capacity, standby
from infra.stack import Form, Model, Platform
from planner.choice.coldstart import ColdStart, cold_start
from planner.choice.cost import Served

_GB_PER_MIB = 2**20 / 1e9


def served(platform: Platform) -> list[Served]:
    """Return every model, canaries included, in each of its regions."""
    found: list[Served] = []
    every = with_canaries(platform)
    for name, model in every.models.items():
        for region in every.regions_of(model):
            found += _in_region(every, name, model, region)
    return found


def _in_region(platform: Platform, name: str, model: Model, region: str) -> Iterator[Served]:
    rungs = tuple(checked_rungs(platform, model.capacity, region).values())
    replicas = model.replicas
    if form_in(platform, model, region) is Form.PAIRED and rungs:
        first = tuple(rung for rung in rungs if rung.kind == "tpu")
        others = tuple(rung for rung in rungs if rung.kind == "gpu")
        yield Served(name, region, first + others, replicas.min, replicas.max)
        if kept := standby(model):
            yield Served(name, region, others, kept, kept, "standby")
    elif rungs:
        yield Served(name, region, rungs, replicas.min, replicas.max)
    capacity = prefill_capacity(model)
    if model.disaggregated is not None and capacity is not None:
        prefill = model.disaggregated.prefill.replicas
        used = tuple(checked_rungs(platform, capacity, region).values())
        yield Served(name, region, used, prefill.min, prefill.max, "prefill")


@dataclass(frozen=True)
class Start:
    """How long a replica of a model takes to start on one rung."""

    model: str
    region: str
    rung: str
    start: ColdStart
    """With the compile cache warm."""
    first: ColdStart
    """The very first start of this model on this hardware."""
    limit: float | None
    """The stack's promise, in seconds."""

    @property
    def is_late(self) -> bool:
        """Whether it takes longer than the stack promises."""
        return self.limit is not None and self.start.seconds > self.limit


def starts(platform: Platform) -> list[Start]:
    """Return the cold start of every model on every rung of each of its regions."""
    return [
        _start(platform, name, model, region, rung)
        for name, model in platform.models.items()
        for region in platform.regions_of(model)
        for rung in checked_rungs(platform, model.capacity, region).values()
    ]


def _start(platform: Platform, name: str, model: Model, region: str, rung: Rung) -> Start:
    cached = any(zone.startswith(f"{region}-") for zone in platform.storage.cache_zones)
    rate = None
    source = "bucket-cached" if cached else "bucket"
    if model.disk is not None:
        source = "disk"
        rate = model.disk.throughput_mib_per_second * _GB_PER_MIB / model.replicas.max
    is_stored = platform.capacity[model.capacity].image_cache

    def at(*, is_compiled: bool) -> ColdStart:
        return cold_start(
            rung.kind,
            model.size.parameters_billion * model.size.bits / 8,
            provisioning=rung.provisioning,
            image="boot-disk" if is_stored else "streamed",
            weights=source,
            is_compiled=is_compiled,
            disk_gb_per_second=rate,
        )

    limit = model.slo.cold_start_s if model.slo is not None else None
    return Start(name, region, rung.label, at(is_compiled=True), at(is_compiled=False), limit)
