"""Start-up times of a stack's models, as the planner estimates them."""

from collections.abc import Iterator
from dataclasses import dataclass

from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.rungs import Rung
from infra.plan import Plan, ServedModel
from infra.plan.storage import RegionStorage, is_on
from infra.stack import AdapterPlace
from planner.choice.coldstart import NODE_STAGES, ColdStart, cold_start
from planner.speed.kv_tiers import lustre_bytes_per_second, share_bytes_per_second

_MIB = 2**20
_GB_PER_MIB = _MIB / 1e9


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


@dataclass(frozen=True)
class Option:
    """A way to get the image or the weights of a model to a rung, and the start-up time with it."""

    model: str
    region: str
    rung: str
    what: str
    start: ColdStart
    """With a warm compile cache; everything else is as in the stack."""
    is_used: bool
    """Whether the stack uses it."""
    why_not: str
    """Why the model cannot use it on this rung; empty if it can."""


def options(plan: Plan) -> list[Option]:
    """Return the ways to get image and weights to every rung of every model, and their times."""
    return [
        option
        for every in plan.models.values()
        for served in every
        if served.version is None
        for rung in served.rungs.values()
        for option in _options(served, rung)
    ]


_BUCKET, _CACHED, _STREAMER, _DISK = "bucket", "bucket-cached", "streamer", "disk"
_WEIGHTS = {
    _BUCKET: "Cloud Storage FUSE",
    _CACHED: "Cloud Storage FUSE, cached",
    _STREAMER: "Run:ai Model Streamer",
    _DISK: "Hyperdisk ML",
}
_STORED, _STREAMED = "boot-disk", "streamed"


def _options(served: ServedModel, rung: Rung) -> Iterator[Option]:
    source, image = _source(served, rung), _image(served, rung)

    def option(
        what: str, *, is_used: bool, why_not: str = "", weights: str = source, image: str = image
    ) -> Option:
        start = _estimate(served, rung, weights=weights, image=image)
        where = served.name, served.region, rung.label
        return Option(*where, what, start, is_used, why_not)

    why_no_streamer = (
        "" if _streams(served, rung) else f"engine {served.settings.engine} reads files"
    )
    for weights, what in _WEIGHTS.items():
        why_not = why_no_streamer if weights == _STREAMER else ""
        yield option(what, is_used=weights == source, why_not=why_not, weights=weights)
    why_not = "" if rung.kind == "gpu" else "GKE attaches it to GPU nodes only"
    is_used = image == _STORED
    yield option("secondary boot disk", is_used=is_used, why_not=why_not, image=_STORED)


def starts(plan: Plan) -> list[Start]:
    """Return the cold start of every model on every rung of each of its regions."""
    return [
        _start(served.site.storage, served, rung)
        for every in plan.models.values()
        for served in every
        if served.version is None
        for rung in served.rungs.values()
    ]


def expected_start_seconds(served: ServedModel) -> int:
    """Return the time from the first request for a model without replicas to its answer.

    It is the lead time on its first rung, with a warm compile cache.
    """
    rung = next(iter(served.rungs.values()))
    return round(_start(served.site.storage, served, rung).start.lead_seconds)


def _start(storage: RegionStorage, served: ServedModel, rung: Rung) -> Start:
    model, region = served.settings, served.region
    weights, image = _source(served, rung), _image(served, rung)
    limit = model.slo.cold_start_s if model.slo is not None else None
    later = _estimate(served, rung, weights=weights, image=image)
    first = _estimate(served, rung, weights=weights, image=image, is_first=True)
    kept = served.buffer if rung in served.buffer_rungs.values() else 0
    adapters = _adapters(storage, served)
    return Start(served.name, region, rung.label, later, first, limit, kept, adapters)


def _source(served: ServedModel, rung: Rung) -> str:
    """Return where a replica reads its weights, one of `WEIGHTS`."""
    if served.settings.disk is not None:
        return _DISK
    if _streams(served, rung):
        return _STREAMER
    tuned = rung.kind == "tpu" and served.is_tuned  # a profile tunes reads of mounts
    return _CACHED if served.site.storage.cache_zones or tuned else _BUCKET


def _streams(served: ServedModel, rung: Rung) -> bool:
    """Return whether the engine reads weights from the bucket without a mount."""
    found = engine(served.settings.engine).hardware
    return rung.kind in found and found[rung.kind].streamed


def _image(served: ServedModel, rung: Rung) -> str:
    is_stored = served.capacity.settings.image_cache and rung.kind == "gpu"
    return _STORED if is_stored else _STREAMED


def _estimate(
    served: ServedModel, rung: Rung, *, weights: str, image: str, is_first: bool = False
) -> ColdStart:
    """Return the cold start of a replica with weights and an image from somewhere.

    Args:
        served: Model.
        rung: Its rung.
        weights: One of `WEIGHTS`.
        image: One of `IMAGES`.
        is_first: Whether nothing of the model was compiled before.
    """
    model, disk = served.settings, served.settings.disk
    rate = None
    sizes = [each.parameters_billion * each.bits / 8 for each in model.sizes]
    # a disk has the first model; further ones of an image server are in the bucket
    is_split = weights == _DISK
    if weights == _DISK and disk is not None:
        rate = disk.throughput_mib_per_second * _GB_PER_MIB / model.replicas.max
    # the same as serving.weights: on GPU one launcher keeps what one server compiled
    able = engine(model.engine).hardware[rung.kind]
    is_kept = rung.kind == "tpu" or (not rung.is_multi_host and able.archived_cache)
    return cold_start(
        rung.kind,
        sizes[0] if is_split else sum(sizes),
        bucket_gb=sum(sizes[1:]) if is_split else 0.0,
        provisioning=rung.provisioning,
        image=image,
        weights=weights,
        is_compiled=is_kept and not is_first,
        disk_gb_per_second=rate,
    )


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
