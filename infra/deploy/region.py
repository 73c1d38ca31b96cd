"""Wires one region: cluster, buckets, capacity, models and the gateway in front of them."""

from collections.abc import Iterable, Mapping

import pulumi

from gke_inference.capacity.calendar_reservation import CalendarReservation
from gke_inference.capacity.compact_placement import CompactPlacement
from gke_inference.catalogue.labels import TEAM_LABEL
from gke_inference.clients.apigee_gate import ApigeeGate
from gke_inference.front.exported_pools import ExportedPools
from gke_inference.front.published_gateway import PublishedGateway
from gke_inference.gateway.certificate import GatewayCertificate
from gke_inference.gateway.inference_gateway import InferenceGateway
from gke_inference.namespace.network_policies import AllowedIngressArgs
from gke_inference.namespace.serving_namespace import ServingNamespace, ServingNamespaceArgs
from gke_inference.operators.group_operator import (
    LeaderWorkerSetOperator,
    LeaderWorkerSetOperatorArgs,
)
from gke_inference.operators.metrics_adapter import MetricsAdapter, MetricsAdapterArgs
from gke_inference.serving.ray.scaler import RayScaler, RayScalerArgs
from gke_inference.storage.fuse_volume import FuseVolume
from gke_inference.storage.model_bucket import ModelBucket, ModelBucketArgs
from infra.deploy import front as assemble_front
from infra.deploy import gateway as assemble_models
from infra.deploy.backends import relay_backends
from infra.deploy.batches import answer_batches
from infra.deploy.built_region import BuiltRegion, ExportedModels, ServedRegion
from infra.deploy.capacity import Site, build_capacity, placement_args, reservation_args
from infra.deploy.clients import build_apigee_gate, build_client_gate
from infra.deploy.cloud_run import run_models
from infra.deploy.cluster import after_kinds, build_cluster
from infra.deploy.devices import additional_networks, connect_interfaces, drive_devices
from infra.deploy.fleet import exported_args
from infra.deploy.folders import build_folders, weights_volume_args
from infra.deploy.guardrails import guard_region
from infra.deploy.hostname import certificate_args
from infra.deploy.images import let_nodes_pull
from infra.deploy.ingress import ingress_args
from infra.deploy.network import RegionNetwork
from infra.deploy.optimization import optimize_models
from infra.deploy.options import inside as options_inside
from infra.deploy.personal import personalize_images
from infra.deploy.pipelines import score_events
from infra.deploy.queues import build_queues
from infra.deploy.serving import open_models, serve
from infra.deploy.sharing import route_sources, share
from infra.deploy.streams import stream_to_models
from infra.estimate.chip_limits import chip_limits
from infra.plan import Plan, RegionPlan
from infra.plan.front import FrontPlan
from infra.plan.project import ProjectPlan
from infra.stack import Form, Gateway, Storage


def build_region(
    plan: Plan,
    region: RegionPlan,
    network: RegionNetwork,
    image_cache: pulumi.Input[str] | None,
    after: list[pulumi.Resource],
) -> BuiltRegion:
    """Build a region.

    Args:
        plan: The stack, resolved.
        region: One of its regions.
        network: The network as the region takes it.
        image_cache: Disk image for the nodes of capacity that asks for it.
        after: Dependencies, deleted later.
    """
    platform, opts = plan.platform, pulumi.ResourceOptions(depends_on=after)
    placements = {
        name: CompactPlacement(f"{region.name}-{name}-placement", args, opts)
        for name, args in placement_args(region).items()
    }
    cluster = build_cluster(region, network, _before(placements, opts))
    buckets: dict[str, pulumi.Input[str]] = {
        role: ModelBucket(f"{region.name}-{role}", args, opts).bucket_name
        for role, args in bucket_args(region, plan.storage.settings, platform.teams).items()
    }
    buckets.setdefault("models", region.storage.model_bucket)
    runs = run_models(plan.backends, region, buckets["models"], opts)
    inside = options_inside(region, cluster.kubeconfig, [cluster])
    inside = after_kinds(region, inside)
    interfaces = connect_interfaces(region, network, inside)
    site = Site(
        additional_networks=additional_networks(region, network),
        cluster_name=cluster.cluster_name,
        image_cache=image_cache,
        placements={name: each.policy_name for name, each in placements.items()},
        node_service_account=cluster.node_service_account,
        region=region,
    )
    if platform.monitoring.metrics_adapter and region.serves_models:
        adapter = adapter_args(region.project)
        MetricsAdapter(f"{region.name}-metrics-adapter", adapter, inside)
    reservations = [
        CalendarReservation(f"{region.name}-{name}", args, opts)
        for name, args in reservation_args(region).items()
    ]
    capacity = build_capacity(site, [cluster, *interfaces, *reservations], inside)
    capacity += let_nodes_pull(region, cluster.node_service_account, opts)
    if region.has_groups:  # models are created after it, and deleted before it
        operator = LeaderWorkerSetOperatorArgs()
        capacity.append(LeaderWorkerSetOperator(f"{region.name}-groups", operator, inside))
    capacity += drive_devices(region, inside)  # as groups
    teams = build_queues(region, inside, capacity)
    serving, apigee = _build_serving(
        plan,
        region,
        buckets,
        network,
        capacity,
        _build_certificate(plan.front, region, opts),
        teams,
        inside,
    )
    if isinstance(serving, ExportedModels):
        return BuiltRegion(cluster=cluster, gateway=None, exported=serving)
    return BuiltRegion(
        cluster=cluster,
        gateway=serving,
        run_services=tuple(runs),
        apigee=apigee,
        published=_publish(plan.front.gateway, region, network, serving, inside),
    )


def _before(
    placements: dict[str, CompactPlacement], opts: pulumi.ResourceOptions
) -> pulumi.ResourceOptions:
    """Return options of a cluster, whose nodes must be gone before their policies are deleted."""
    behind = pulumi.ResourceOptions(depends_on=[*placements.values()])
    return pulumi.ResourceOptions.merge(opts, behind)


def _build_certificate(
    front: FrontPlan, region: RegionPlan, opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Build the certificate of the region's gateway, if the stack issues one."""
    args = certificate_args(front, region.project, region.name)
    if args is None or not region.serves_models or region.is_exported:
        return []  # a gateway over all clusters has one certificate for all of them
    return [GatewayCertificate(f"{region.name}-certificate", args, opts)]


def _publish(
    settings: Gateway,
    region: RegionPlan,
    network: RegionNetwork,
    gateway: InferenceGateway | None,
    inside: pulumi.ResourceOptions,
) -> PublishedGateway | None:
    """Publish the region's gateway, if configured."""
    if gateway is None:
        return None
    args = assemble_front.published_args(settings, region, gateway.gateway_id, network.published)
    if args is None:
        return None
    behind = pulumi.ResourceOptions(depends_on=[gateway])
    opts = pulumi.ResourceOptions.merge(inside, behind)
    return PublishedGateway(f"{region.name}-published", args, opts)


def _build_serving(
    plan: Plan,
    region: RegionPlan,
    buckets: dict[str, pulumi.Input[str]],
    network: RegionNetwork,
    capacity: list[pulumi.Resource],
    certificates: list[pulumi.Resource],
    teams: list[pulumi.Resource],
    inside: pulumi.ResourceOptions,
) -> tuple[InferenceGateway | ExportedModels | None, ApigeeGate | None]:
    """Build the namespace, its models and the gateway, if any model runs in the region.

    What checks requests is created before the gateway and deleted after it, so that no request
    passes unchecked. If serving stacks deploy the models, build the namespaces of their teams
    instead.
    """
    if not region.serves_models:
        return None, None
    platform, settings = plan.platform, plan.front.gateway
    ingress = ingress_args(region) if region.has_network_policies else None
    limited = namespace_args(region, chip_limits(region), ingress)
    namespace = ServingNamespace(f"{region.name}-namespace", limited, inside)
    after_namespace = pulumi.ResourceOptions(depends_on=[namespace])
    needed: list[pulumi.Resource] = [namespace, *capacity]
    after_teams = pulumi.ResourceOptions(depends_on=[namespace, *teams, *network.after])
    folders = pulumi.ResourceOptions.merge(inside, after_teams)
    needed += build_folders(region, network, folders)
    volume = weights_volume_args(region, buckets["models"])
    if volume is not None:
        opts = pulumi.ResourceOptions.merge(inside, after_namespace)
        needed.append(FuseVolume(f"{region.name}-model-bucket", volume, opts))
    behind = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=needed))
    if region.is_shared:
        share(platform, region, buckets, inside)
    else:
        gate_opts = pulumi.ResourceOptions.merge(inside, after_namespace)
        open_models(region, buckets, gate_opts)
    if region.has_ray_clusters:  # their sets are created after it, and deleted before it
        scaler = RayScalerArgs(namespace=region.namespace)
        opts = pulumi.ResourceOptions.merge(inside, after_namespace)
        needed.append(RayScaler(f"{region.name}-ray-scaler", scaler, opts))
    servers = {served.name: serve(region, served, buckets, behind) for served in region.served}
    if region.is_exported:
        exported = exported_args(plan.front, region, servers)
        opts = pulumi.ResourceOptions.merge(inside, after_namespace)
        pools = ExportedPools(f"{region.name}-pools", exported, opts)
        return ExportedModels(pools, exported["models"], inside), None
    args = assemble_models.gateway_args(
        plan.front,
        region,
        () if plan.backends is None else plan.backends.settings,
        servers,
        network.subnetwork,
    )
    if sources := route_sources(platform.teams):
        args["route_sources"] = sources
    first = pulumi.ResourceOptions.merge(inside, after_namespace)
    checks = guard_region(plan.guardrails, region, inside, after_namespace)
    checks += build_client_gate(region, settings, plan.guardrails, network, first, checks)
    apigee = build_apigee_gate(region, network, first)
    checks += [] if apigee is None else [apigee]
    gateway = InferenceGateway(
        f"{region.name}-gateway",
        args,
        pulumi.ResourceOptions.merge(
            inside, pulumi.ResourceOptions(depends_on=[namespace, *certificates, *checks])
        ),
    )
    relay_backends(plan.backends, settings, region, inside, gateway)
    served = ServedRegion(region, settings, gateway, buckets, inside)
    stream_to_models(served, [namespace, gateway])
    score_events(region, settings, gateway.address, network.subnetwork, [gateway])
    answer_batches(served, [namespace, gateway, *teams])
    optimize_models(served, teams)
    personalize_images(served, [gateway, *needed])
    return gateway, apigee


def bucket_args(
    region: RegionPlan, storage: Storage, teams: Iterable[str]
) -> dict[str, ModelBucketArgs]:
    """Return the arguments of the buckets that a region creates: `models`, and `caches` if needed.

    An existing bucket for weights is not included.
    """
    models = ModelBucketArgs(
        bucket_name=region.storage.model_bucket,
        folders=not storage.versioning,
        force_destroy=not region.project.is_protected,
        labels=region.project.labels,
        location=region.name,
        project=region.project.id,
        soft_delete_days=storage.soft_delete_days,
        versioning=storage.versioning,
    )
    if region.storage.cache_zones:
        models["cache_zones"] = list(region.storage.cache_zones)
        models["cache_days"] = storage.cache_days
        models["cache_on_write"] = storage.cache_on_write
    by_role = {"models": models} if region.settings.existing.bucket is None else {}
    if region.served:
        by_role["caches"] = _caches_args(region, None)
    for team in teams:
        by_role[f"caches-{team}"] = _caches_args(region, team)
    if region.settings.data_key is not None:
        for args in by_role.values():
            args["kms_key"] = region.settings.data_key
    return by_role


def _caches_args(region: RegionPlan, team: str | None) -> ModelBucketArgs:
    """Return the arguments of the bucket for compiled programs, which teams never share."""
    labels = region.project.labels
    return ModelBucketArgs(
        bucket_name=region.names.bucket("caches", region.name, team),
        force_destroy=True,  # lost files are compiled again
        labels=labels if team is None else labels | {TEAM_LABEL: team},
        location=region.name,
        project=region.project.id,
        soft_delete_days=0,
    )


def namespace_args(
    region: RegionPlan, chips: Mapping[str, int], ingress: AllowedIngressArgs | None
) -> ServingNamespaceArgs:
    """Return the arguments of the namespace.

    Dual-container pods are privileged, RDMA locks more memory than `baseline` allows, and TCPX and
    TCPXO mount folders of the node.

    Args:
        region: Region of the cluster.
        chips: Maximum number of chips that its pods may request, by kind; empty for no limit.
        ingress: Access to its pods, or None if all may reach them.
    """
    forms = {served.settings.form for served in region.served}
    args = ServingNamespaceArgs(namespace=region.namespace)
    if region.names.existing_namespace is None:
        has_interfaces = region.has_rdma or region.interface_network is not None
        is_privileged = Form.DUAL_CONTAINER in forms or has_interfaces
        level = "privileged" if is_privileged else "baseline"
        args["pod_security"] = level
        if chips and not region.is_shared:  # otherwise, teams have quotas
            args["gpu_chips"], args["tpu_chips"] = chips["gpu"], chips["tpu"]
    else:
        args["existing"] = True
    if region.settings.existing.cluster is None and region.settings.chip_limits.enabled:
        args["closes_default"] = True
    if ingress is not None:
        args["ingress"] = ingress
    return args


def adapter_args(project: ProjectPlan) -> MetricsAdapterArgs:
    """Return the arguments of a cluster's metrics adapter."""
    return MetricsAdapterArgs(
        has_access=True,  # infra.deploy.project grants it, once for all clusters
        project=project.id,
        project_number=project.number,
    )
