"""Resolves a valid stack once, into records for wiring, quota, cost and reports."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from gke_inference.catalogue.managed_prometheus import collectors_namespace
from gke_inference.catalogue.names import deployment_names
from infra.plan.batches import batches_in
from infra.plan.capacity import (
    CapacityByRegion,
    RegionCapacity,
    capacity_by_region,
    prefill_capacity,
)
from infra.plan.front import has_fleet_gateway
from infra.plan.names import Names, object_name, version_name
from infra.plan.queues import QueuePlan, queues_in
from infra.plan.served import CanaryVersion, ServedModel
from infra.plan.streams import streams
from infra.plan.system_nodes import SystemNodes, system_nodes
from infra.stack import (
    Canary,
    ClusterMode,
    ClusterSpread,
    EngineSettings,
    Form,
    Layer,
    Model,
    Platform,
    Region,
    Role,
)

_STANDBY = 1
"""Default number of warm GPU replicas of a paired model."""


@dataclass(frozen=True)
class RegionPlan:
    """One region: its cluster, capacity and models."""

    name: str
    settings: Region
    location: str
    """Location of the cluster: the region, or the first zone for a zonal cluster."""
    cluster_name: str
    namespace: str
    """Namespace of the models."""
    system_nodes: SystemNodes | None
    """None if the stack creates none: for an existing cluster, or in Autopilot."""
    capacity: Mapping[str, RegionCapacity]
    """Every capacity of the stack in this region, by name."""
    served: tuple[ServedModel, ...]
    """Every model in stack order, each followed by its canary."""
    is_shared: bool = False
    """Whether serving stacks deploy the models."""
    is_exported: bool = False
    """Whether one gateway for all clusters imports its pools, and it has none of its own."""
    idle_streams: tuple[str, ...] = ()
    """Streams of the region that may scale to zero workers."""
    queues: tuple[QueuePlan, ...] = ()
    """Queues whose jobs run in the region."""
    has_fuse_profile: bool = False
    """Whether GKE tunes the mounts of its model bucket."""
    has_idle_batches: bool = False
    """Whether the region has a batch service that may scale to zero workers."""

    @property
    def has_gateway(self) -> bool:
        """Whether the region serves models, from this or other stacks."""
        return self.is_shared or bool(self.served)

    @property
    def metrics_namespace(self) -> str:
        """Namespace of the cluster's collectors of Managed Prometheus."""
        return collectors_namespace(autopilot=self.settings.mode is ClusterMode.AUTOPILOT)

    @property
    def used_capacity(self) -> tuple[RegionCapacity, ...]:
        """Capacity that a model of the region runs on."""
        return tuple(capacity for capacity in self.capacity.values() if capacity.is_used)

    @property
    def has_groups(self) -> bool:
        """Whether replicas of some model may be groups that the LeaderWorkerSet operator makes."""
        if self.is_shared:
            return any(capacity.spans_hosts for capacity in self.used_capacity)
        return any(
            served.capacity.spans_hosts and not served.is_on_kuberay for served in self.served
        )

    @property
    def has_job_sets(self) -> bool:
        """Whether jobs may run on slices of several hosts, as sets of the JobSet operator."""
        flavors = [flavor for queue in self.queues for flavor in queue.flavors]
        return any(flavor.capacity.spans_hosts for flavor in flavors)

    @property
    def has_rdma(self) -> bool:
        """Whether replicas of some model claim RDMA interfaces."""
        return any(role.capacity.has_rdma for served in self.served for role in served.roles)

    @property
    def interface_network(self) -> str | None:
        """`tcpx` or `tcpxo` if nodes have its interfaces. A stack has one of them."""
        networks = [
            capacity.rungs[at].network
            for capacity in self.used_capacity
            for at in capacity.interface_rungs
        ]
        return networks[0] if networks else None

    @property
    def has_ray_clusters(self) -> bool:
        """Whether replicas of some model are Ray clusters, which GKE's Ray operator makes."""
        return any(served.is_on_kuberay for served in self.served)


@dataclass(frozen=True)
class Plan:
    """A resolved stack."""

    platform: Platform
    """The stack itself, for values that need no resolving."""
    regions: Mapping[str, RegionPlan]
    """Regions, in stack order."""
    models: Mapping[str, tuple[ServedModel, ...]]
    """Every model in each of its regions, each followed by its canary."""


def resolve(platform: Platform) -> Plan:
    """Return the resolved form of a stack.

    Args:
        platform: A valid stack, as returned by `infra.reading.load`.
    """
    capacity = capacity_by_region(platform)
    regions: dict[str, list[ServedModel]] = {name: [] for name in platform.regions}
    models: dict[str, tuple[ServedModel, ...]] = {}
    for name, model, version in _versions(platform):
        models[name] = tuple(
            _served(platform, name, model, version, region, capacity)
            for region in platform.regions_of(model)
        )
        for served in models[name]:
            regions[served.region].append(served)
    return Plan(
        platform,
        {
            name: _region(platform, name, capacity, tuple(served))
            for name, served in regions.items()
        },
        models,
    )


def _region(
    platform: Platform, name: str, capacity: CapacityByRegion, served: tuple[ServedModel, ...]
) -> RegionPlan:
    settings = platform.regions[name]
    location, cluster_name = _cluster(platform, name)
    return RegionPlan(
        name=name,
        settings=settings,
        location=location,
        cluster_name=cluster_name,
        system_nodes=system_nodes(settings) if platform.layer is not Layer.SERVING else None,
        namespace=Names(platform).namespace(),
        capacity={each: by_region[name] for each, by_region in capacity.items()},
        served=served,
        queues=queues_in(
            platform, name, {each: by_region[name] for each, by_region in capacity.items()}
        ),
        is_shared=platform.layer is Layer.PLATFORM,
        is_exported=has_fleet_gateway(platform.gateway),
        has_fuse_profile=platform.storage.fuse_profile is not None,
        has_idle_batches=_has_idle_batches(platform, name),
        idle_streams=tuple(
            stream.name
            for stream in streams(platform)
            if stream.region == name and stream.settings.workers.min == 0
        ),
    )


def _has_idle_batches(platform: Platform, region: str) -> bool:
    found = batches_in(platform, region)
    return found is not None and found.settings.workers.min == 0


def _cluster(platform: Platform, region: str) -> tuple[str, str]:
    """Return the location and name of a region's cluster."""
    settings = platform.regions[region]
    if settings.existing.cluster is not None:
        _, _, _, location, _, name = settings.existing.cluster.split("/")
        return location, name
    is_zonal = settings.cluster is ClusterSpread.ZONAL
    return settings.zones[0] if is_zonal else region, Names(platform).cluster(region)


def _versions(platform: Platform) -> Iterator[tuple[str, Model, CanaryVersion | None]]:
    """Yield every model, followed by its canary as a separate model."""
    for name, model in platform.models.items():
        yield name, model, None
        canary = model.canary
        if canary is not None:
            version = CanaryVersion(name, canary.version, canary.percent)
            yield version_name(name, canary.version), canary_model(model, canary), version


def canary_model(model: Model, canary: Canary) -> Model:
    """Return the second version of a model as a separate model."""
    engine = canary.engine or model.engine
    settings = canary.settings
    if settings is None:
        settings = model.settings if engine is model.engine else EngineSettings()
    return model.model_copy(
        update={
            "canary": None,
            "disk": None,  # a disk holds one version
            "engine": engine,
            # by default, nodes are kept for the model only: the canary can use them as well
            "replicas": canary.replicas or model.replicas.model_copy(update={"buffer": 0}),
            "settings": settings,
            "weights": canary.weights,
        }
    )


def _served(
    platform: Platform,
    name: str,
    model: Model,
    version: CanaryVersion | None,
    region: str,
    capacity: CapacityByRegion,
) -> ServedModel:
    here = capacity[model.capacity][region]
    is_one_kind = len(here.classes) == 1 and "any" not in here.classes
    form = Form.SINGLE if is_one_kind else platform.form_of(model)
    disk = model.disk
    settings = platform.regions[region]
    served = ServedModel(
        name=name,
        region=region,
        settings=model,
        version=version,
        role="serve",
        capacity=here,
        form=form,
        minimum=model.replicas.min,
        maximum=model.replicas.max,
        standby=_standby(model) if form is Form.PAIRED else 0,
        buffer=model.replicas.buffer,
        namespace=Names(platform).namespace(),
        object_name=object_name(name),
        deployments=_deployments(name, form, None, here),
        weights=Names(platform).weights(model.weights, region),
        disk_zones=None if disk is None else tuple(z for z in disk.zones if z in settings.zones),
        is_first=region == min(platform.regions_of(model)),
    )
    return served if model.disaggregated is None else _disaggregated(served, capacity)


def _disaggregated(served: ServedModel, capacity: CapacityByRegion) -> ServedModel:
    """Return the decode replicas, with the prefill replicas that serve them."""
    model = served.settings
    if model.disaggregated is None:
        return served
    decode, prefill = Role.DECODE.value, Role.PREFILL.value
    own = capacity[str(prefill_capacity(model))][served.region]
    replicas = model.disaggregated.prefill.replicas
    computes = replace(
        served,
        buffer=0,
        capacity=own,
        deployments=_deployments(served.name, served.form, prefill, own),
        maximum=replicas.max,
        minimum=replicas.min,
        role=prefill,
    )
    deployments = _deployments(served.name, served.form, decode, served.capacity)
    return replace(served, deployments=deployments, prefill=computes, role=decode)


def _standby(model: Model) -> int:
    return _STANDBY if model.replicas.standby is None else model.replicas.standby


def _deployments(
    name: str, form: Form, role: str | None, capacity: RegionCapacity
) -> dict[str, str]:
    kinds = [kind for kind in ("tpu", "gpu") if capacity.of_kind(kind)]
    return deployment_names(object_name(name), form.value, role, kinds)
