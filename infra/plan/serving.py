"""The models of a stack, resolved in each of their regions."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from gke_inference.catalogue.files.buckets import bucket_in
from gke_inference.catalogue.names import deployment_names
from infra.plan.canary import CanaryVersion, canary_model
from infra.plan.capacity import CapacityByRegion, RegionCapacity, prefill_capacity
from infra.plan.names import Names, object_name, version_name
from infra.plan.project import ProjectPlan
from infra.plan.served import ServedModel, ServingSite
from infra.plan.storage import StoragePlan
from infra.stack import ClusterMode, Form, Layer, Model, Platform, Role

_STANDBY = 1
"""Default number of warm GPU replicas of a paired model."""


def resolve_sites(
    platform: Platform, names: Names, project: ProjectPlan, storage: StoragePlan
) -> dict[str, ServingSite]:
    """Return what the models of each region have in common."""
    traces = platform.monitoring.traces
    gated_buckets = _gated_buckets(platform, storage)
    return {
        name: ServingSite(
            region=name,
            settings=region,
            names=names,
            project=project,
            storage=storage.regions[name],
            is_autopilot=region.mode is ClusterMode.AUTOPILOT,
            grants_weights=platform.has_clusters(),
            grants_caches=platform.layer is Layer.ALL,
            gated_buckets=gated_buckets.get(name, ()),
            reports_usage=platform.gated_clients() is not None,
            scrape_seconds=platform.monitoring.scrape_seconds,
            trace_percent=None if traces is None else traces.sample_percent,
        )
        for name, region in platform.regions.items()
    }


def _gated_buckets(platform: Platform, storage: StoragePlan) -> dict[str, tuple[str, ...]]:
    """Return the buckets outside the stack that the gate of weights may read, by region.

    Its principal is the same in every cluster, so the first region with models grants access. A
    path can also name a region's own bucket, which the gate of that region is granted. Google
    Cloud has one grant of a role to an identity, so the removal of a second one would remove both.
    """
    models = platform.models.values()
    used = {name for model in models for name in platform.regions_of(model)}
    if platform.layer is not Layer.ALL or not used:
        return {}
    buckets = {bucket_in(path) for model in models for path in model.weights_by_field().values()}
    own = {storage.regions[name].model_bucket for name in used}
    outside = {bucket for bucket in buckets if bucket is not None and bucket not in own}
    return {min(used): tuple(sorted(outside))}


def resolve_models(
    platform: Platform, sites: Mapping[str, ServingSite], capacity: CapacityByRegion
) -> dict[str, tuple[ServedModel, ...]]:
    """Return every model in each of its regions, each followed by its canary."""
    return {
        name: tuple(
            _served(name, model, version, platform.form_of(model), sites[region], regions, capacity)
            for region in regions
        )
        for name, model, version in _versions(platform.models.items())
        for regions in (platform.regions_of(model),)
    }


def _versions(
    models: Iterable[tuple[str, Model]],
) -> Iterator[tuple[str, Model, CanaryVersion | None]]:
    """Yield every model, followed by its canary as a separate model."""
    for name, model in models:
        yield name, model, None
        canary = model.canary
        if canary is not None:
            version = CanaryVersion(name, canary.version, canary.percent)
            yield version_name(name, canary.version), canary_model(model, canary), version


def _served(
    name: str,
    model: Model,
    version: CanaryVersion | None,
    form: Form,
    site: ServingSite,
    regions: Collection[str],
    capacity: CapacityByRegion,
) -> ServedModel:
    """Return a model in one of its regions."""
    here, disk = capacity[model.capacity][site.region], model.disk
    is_one_kind = len(here.classes) == 1 and "any" not in here.classes
    form = Form.SINGLE if is_one_kind else form
    zones = site.settings.zones
    weights = site.names.weights(model.weights, site.region)
    served = ServedModel(
        name=name,
        region=site.region,
        site=site,
        settings=model,
        version=version,
        role="serve",
        capacity=here,
        form=form,
        replicas=model.replicas,
        standby=_standby(model) if form is Form.PAIRED else 0,
        buffer=model.replicas.buffer,
        namespace=site.names.namespace(),
        object_name=object_name(name),
        deployments=_deployments(name, form, None, here),
        weights=weights,
        is_tuned=site.storage.is_tuned(weights),
        disk_zones=None if disk is None else tuple(zone for zone in disk.zones if zone in zones),
        is_first=site.region == min(regions),
    )
    return served if model.disaggregated is None else _disaggregated(served, capacity)


def _disaggregated(served: ServedModel, capacity: CapacityByRegion) -> ServedModel:
    """Return the decode replicas, with the prefill replicas that serve them."""
    model = served.settings
    if model.disaggregated is None:
        return served
    decode, prefill = Role.DECODE.value, Role.PREFILL.value
    own = capacity[str(prefill_capacity(model))][served.region]
    computes = replace(
        served,
        buffer=0,
        capacity=own,
        deployments=_deployments(served.name, served.form, prefill, own),
        replicas=model.disaggregated.prefill.replicas,
        role=prefill,
    )
    deployments = _deployments(served.name, served.form, decode, served.capacity)
    return replace(served, deployments=deployments, prefill=computes, role=decode)


def _standby(model: Model) -> int:
    return _STANDBY if model.replicas.standby is None else model.replicas.standby


def _deployments(
    name: str, form: Form, role: str | None, capacity: RegionCapacity
) -> dict[str, str]:
    return deployment_names(object_name(name), form.value, role, capacity.kinds)
