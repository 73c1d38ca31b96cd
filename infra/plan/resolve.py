"""Resolves a valid stack once, into records for wiring, quota, cost and reports."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from gke_inference.catalogue.managed_prometheus import collectors_namespace
from gke_inference.intent.cloud_run import RUN_IMAGE
from infra.plan.backends import BackendsPlan, resolve_backends
from infra.plan.batches import BatchPlan, resolve_batches
from infra.plan.capacity import RegionCapacity, capacity_by_region
from infra.plan.clients import ClientsPlan, GatePlan, resolve_clients, resolve_gates
from infra.plan.cluster import ClusterPlan, resolve_cluster
from infra.plan.front import FrontPlan, resolve_front
from infra.plan.guardrails import GuardrailsPlan, resolve_guardrails
from infra.plan.image_names import (
    ImagesPlan,
    RegionImages,
    resolve_images,
    resolve_region_images,
)
from infra.plan.names import Names, resolve_names
from infra.plan.network import NetworkPlan, resolve_network
from infra.plan.optimization import OptimizationPlan, resolve_optimization
from infra.plan.personal import PersonalPlan, resolve_personal
from infra.plan.pipelines import PipelinePlan, resolve_pipelines
from infra.plan.project import ProjectPlan, resolve_project
from infra.plan.queues import QueuePlan, resolve_queues
from infra.plan.served import ServedModel, ServingSite
from infra.plan.services import resolve_services
from infra.plan.serving import resolve_models, resolve_sites
from infra.plan.storage import RegionStorage, StoragePlan, resolve_storage
from infra.plan.streams import StreamPlan, resolve_streams
from infra.plan.system_nodes import SystemNodes
from infra.stack import Apigee, ClusterMode, Layer, Model, Platform, Region


@dataclass(frozen=True)
class RegionPlan:
    """One region: its cluster, capacity and models."""

    name: str
    settings: Region
    names: Names
    """Names of the stack's resources."""
    project: ProjectPlan
    """Project of the stack."""
    storage: RegionStorage
    images: RegionImages
    cluster: ClusterPlan
    serving: ServingSite
    namespace: str
    """Namespace of the models."""
    capacity: Mapping[str, RegionCapacity]
    """Every capacity of the stack in this region, by name."""
    served: tuple[ServedModel, ...]
    """Every model in stack order, each followed by its canary."""
    is_shared: bool = False
    """Whether serving stacks deploy the models."""
    is_exported: bool = False
    """Whether one gateway for all clusters imports its pools, and it has none of its own."""
    other_proxies: tuple[str, ...] = ()
    """Ranges of the proxies in other regions that reach its pods as well."""
    has_network_policies: bool = True
    """Whether access to serving pods is restricted."""
    gate: GatePlan | None = None
    """The gate of client teams in front of its models."""
    apigee: Apigee | None = None
    """Apigee in place of a gate."""
    batches: BatchPlan | None = None
    """The batch service of the region."""
    streams: tuple[StreamPlan, ...] = ()
    """Streams whose workers are in the region, in stack order."""
    optimization: OptimizationPlan | None = None
    """Jobs that optimize models, if their queue is in the region."""
    personal: PersonalPlan | None = None
    """Personalized images, if the queue of their jobs is in the region."""
    pipelines: tuple[PipelinePlan, ...] = ()
    """Pipelines whose workers are in the region, in stack order."""
    queues: tuple[QueuePlan, ...] = ()
    """Queues whose jobs run in the region."""

    @property
    def location(self) -> str:
        """Location of the cluster."""
        return self.cluster.location

    @property
    def cluster_name(self) -> str:
        """Name of the cluster."""
        return self.cluster.name

    @property
    def system_nodes(self) -> SystemNodes | None:
        """Nodes for pods without accelerators, or None if the stack creates none."""
        return self.cluster.system_nodes

    @property
    def serves_models(self) -> bool:
        """Whether the region serves models, from this or other stacks."""
        return self.is_shared or bool(self.served)

    @property
    def models(self) -> dict[str, Model]:
        """Models of the stack in the region, without canaries, in stack order."""
        return {each.name: each.settings for each in self.served if each.version is None}

    @property
    def idle_streams(self) -> tuple[str, ...]:
        """Streams of the region that may scale to zero workers."""
        return tuple(stream.name for stream in self.streams if stream.may_be_idle)

    @property
    def has_idle_batches(self) -> bool:
        """Whether the region has a batch service that may scale to zero workers."""
        return self.batches is not None and self.batches.may_be_idle

    @property
    def metrics_namespace(self) -> str:
        """Namespace of the cluster's collectors of Managed Prometheus."""
        return collectors_namespace(autopilot=self.settings.mode is ClusterMode.AUTOPILOT)

    def queue(self, name: str) -> QueuePlan:
        """Return a queue of the region, which must have it."""
        return next(each for each in self.queues if each.name == name)

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
    names: Names
    """Names of its resources."""
    project: ProjectPlan
    """Its project."""
    storage: StoragePlan
    network: NetworkPlan
    images: ImagesPlan
    front: FrontPlan
    """Its endpoints."""
    clients: ClientsPlan | None
    """Its client teams, or those of its platform."""
    guardrails: GuardrailsPlan
    """Its guardrails."""
    backends: BackendsPlan | None
    """Its backends, if a relay runs in its clusters."""
    streams: tuple[StreamPlan, ...]
    """Its streams, in stack order."""
    pipelines: tuple[PipelinePlan, ...]
    """Its pipelines, in stack order."""
    regions: Mapping[str, RegionPlan]
    """Regions, in stack order."""
    models: Mapping[str, tuple[ServedModel, ...]]
    """Every model in each of its regions, each followed by its canary."""
    has_clusters: bool
    """Whether the stack has clusters and gateways, not those of its platform."""

    @property
    def has_gate(self) -> bool:
        """Whether gates of client teams run in its clusters."""
        return any(region.gate is not None for region in self.regions.values())


def resolve(platform: Platform) -> Plan:
    """Return the resolved form of a stack.

    Args:
        platform: A valid stack, as returned by `infra.reading.load`.
    """
    names, front = resolve_names(platform), resolve_front(platform)
    clients, guardrails = resolve_clients(platform), resolve_guardrails(platform)
    gates = resolve_gates(platform, clients, guardrails.guards)
    batches, personal = resolve_batches(platform), resolve_personal(platform)
    optimization = resolve_optimization(platform)
    backends, streams = resolve_backends(platform, names), resolve_streams(platform)
    pipelines, storage = resolve_pipelines(platform), resolve_storage(platform, names)
    services = resolve_services(platform, storage, front, clients, guardrails, backends, streams)
    project = resolve_project(platform, services)
    images = resolve_region_images(platform)
    capacity = capacity_by_region(platform)
    sites = resolve_sites(platform, names, project, storage)
    models = resolve_models(platform, sites, capacity)
    served = [each for every in models.values() for each in every]
    regions = {
        name: RegionPlan(
            name=name,
            settings=settings,
            names=names,
            project=project,
            storage=storage.regions[name],
            images=images[name],
            cluster=resolve_cluster(platform, name, names),
            serving=sites[name],
            namespace=names.namespace(),
            capacity=here,
            served=tuple(each for each in served if each.region == name),
            queues=resolve_queues(platform, name, here),
            is_shared=platform.layer is Layer.PLATFORM,
            is_exported=front.gateway.has_fleet_gateway,
            other_proxies=_other_proxies(platform, name),
            has_network_policies=platform.network_policies,
            gate=gates.get(name),
            apigee=platform.apigee(),
            batches=batches if batches is not None and batches.region == name else None,
            streams=tuple(each for each in streams if each.region == name),
            pipelines=tuple(each for each in pipelines if each.region == name),
            optimization=(
                optimization if optimization is not None and optimization.region == name else None
            ),
            personal=personal if personal is not None and personal.region == name else None,
        )
        for name, settings in platform.regions.items()
        for here in ({each: by_region[name] for each, by_region in capacity.items()},)
    }
    programs = _operators(regions.values())
    if front.has_body_router:
        programs.add("body_router")
    if gates:
        programs.add("callout")
    if guardrails.guards and platform.has_clusters():
        programs.add("guardrails")
    if backends is not None:
        programs.add("relay")
        if backends.services:
            programs.add(RUN_IMAGE)
    return Plan(
        platform=platform,
        names=names,
        project=project,
        storage=storage,
        network=resolve_network(platform, names, storage.services_range),
        images=resolve_images(platform, names, images, models, programs),
        front=front,
        clients=clients,
        guardrails=guardrails,
        backends=backends,
        streams=streams,
        pipelines=pipelines,
        regions=regions,
        models=models,
        has_clusters=platform.has_clusters(),
    )


def _operators(regions: Collection[RegionPlan]) -> set[str]:
    """Return the images of the operators that regions need."""
    groups = {"group_operator" for region in regions if region.has_groups}
    return groups | {"job_set_operator" for region in regions if region.has_job_sets}


def _other_proxies(platform: Platform, region: str) -> tuple[str, ...]:
    """Return the ranges of the other regions' proxies, if one gateway has proxies in all."""
    if not platform.gateway.has_fleet_gateway:
        return ()
    return tuple(each.proxies for name, each in platform.regions.items() if name != region)
