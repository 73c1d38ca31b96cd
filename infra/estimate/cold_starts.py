"""Start-up times of a stack's models, as the planner estimates them."""

from dataclasses import dataclass

from gke_inference.catalogue.rungs import Rung
from infra.plan import Plan, ServedModel
from infra.plan.storage import RegionStorage, is_on
from infra.stack import AdapterPlace
from planner.choice.coldstart import NODE_STAGES, ColdStart, cold_start
from planner.speed.kv_tiers import lustre_bytes_per_second, share_bytes_per_second

_MIB = 2**20
_GB_PER_MIB = _MIB / 1e9
_KEPT_ON_GPU = ("sglang", "vllm")


@dataclass(frozen=True)
class AdapterSource:
    """A shared folder that replicas read live adapters from."""

    place: str
    """`Filestore` or `Managed Lustre`."""
    mib_per_second: float
    """How fast all of its clients together read it, at most."""


@dataclass(frozen=True)
class Start:
    """Start-up time of a model's replica on one rung."""

    model: str
    region: str
    rung: str
    start: ColdStart
    """With a warm compile cache."""
    first: ColdStart
    """The first start of this model on this hardware."""
    limit: float | None
    """Limit that the stack sets, in seconds."""
    kept: int = 0
    """Replicas for which `replicas.buffer` keeps nodes; these start without waiting for one."""
    adapters: AdapterSource | None = None
    """Shared folder of its live adapters, or None if they are in a bucket or it has none."""

    @property
    def kept_seconds(self) -> float:
        """Time to the first answer on a node that exists, with a warm compile cache."""
        return sum(each.seconds for each in self.start.stages if each.name not in NODE_STAGES)

    @property
    def is_late(self) -> bool:
        """Whether it exceeds the stack's limit."""
        return self.limit is not None and self.start.seconds > self.limit


def starts(plan: Plan) -> list[Start]:
    """Return the cold start of every model on every rung of each of its regions."""
    return [
        _start(served.site.storage, served, rung)
        for every in plan.models.values()
        for served in every
        if served.version is None
        for rung in served.rungs.values()
    ]


def _start(storage: RegionStorage, served: ServedModel, rung: Rung) -> Start:
    model, region = served.settings, served.region
    rate = None
    # a profile tunes reads of mounts; engines that stream have none
    tuned = rung.kind == "tpu" and served.is_tuned
    source = "bucket-cached" if storage.cache_zones or tuned else "bucket"
    if model.disk is not None:
        source = "disk"
        rate = model.disk.throughput_mib_per_second * _GB_PER_MIB / model.replicas.max
    is_stored = served.capacity.settings.image_cache and rung.kind == "gpu"

    def at(*, is_compiled: bool) -> ColdStart:
        return cold_start(
            rung.kind,
            sum(each.parameters_billion * each.bits / 8 for each in model.sizes),
            provisioning=rung.provisioning,
            image="boot-disk" if is_stored else "streamed",
            weights=source,
            is_compiled=is_compiled,
            disk_gb_per_second=rate,
        )

    limit = model.slo.cold_start_s if model.slo is not None else None
    # the same as serving.weights: on GPU one launcher keeps what one server compiled
    is_kept = rung.kind == "tpu" or (not rung.is_multi_host and model.engine in _KEPT_ON_GPU)
    later, first = at(is_compiled=is_kept), at(is_compiled=False)
    kept = served.buffer if rung in served.buffer_rungs.values() else 0
    adapters = _adapters(storage, served)
    return Start(served.name, region, rung.label, later, first, limit, kept, adapters)


def _adapters(storage: RegionStorage, served: ServedModel) -> AdapterSource | None:
    """Return the shared folder of a model's live adapters, if it has one."""
    filestore = storage.filestore
    if filestore is not None and is_on(served.settings, AdapterPlace.FILESTORE):
        rate = share_bytes_per_second(filestore.tier.value, filestore.capacity_gib)
        return AdapterSource("Filestore", rate / _MIB)
    lustre = storage.lustre
    if lustre is not None and is_on(served.settings, AdapterPlace.LUSTRE):
        rate = lustre_bytes_per_second(lustre.mb_per_second_per_tib, lustre.capacity_gib)
        return AdapterSource("Managed Lustre", rate / _MIB)
    return None
