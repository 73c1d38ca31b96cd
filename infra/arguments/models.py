"""The translator of models: from a stack to the arguments that serve one in a region.

Every function is pure: a part of a stack, and what other components gave, in; arguments out.
"""

from collections.abc import Mapping

import pulumi

from gke_inference.cluster.workload_identity import BucketAccessArgs, WorkloadIdentityArgs
from gke_inference.gateway.inference_gateway import (
    InferenceGatewayArgs,
    RoutedCanaryArgs,
    RoutedModelArgs,
)
from gke_inference.observability.monitoring import MonitoringArgs
from gke_inference.serving.autoscaling import AutoscalingArgs
from gke_inference.serving.disaggregation import ROLE_LABEL
from gke_inference.serving.intent import ModelServerArgs
from gke_inference.serving.model_server import ModelServer
from gke_inference.storage.model_disk import ModelDiskArgs
from infra.arguments.engine import intent_words, weights_uri
from infra.arguments.provisioning import location, rungs
from infra.plan.canary import VersionedModel, version_name
from infra.plan.capacity import class_names, form_in, prefill_capacity, standby, uses_tpu
from infra.plan.names import NAMESPACE, Names, object_name
from infra.stack import Form, Platform


def identity_args(
    platform: Platform, name: str, region: str, buckets: Mapping[str, pulumi.Input[str]]
) -> WorkloadIdentityArgs:
    """Return the arguments of a model's identity in a region.

    A principal is the same in every cluster of a project, so a bucket that all regions share is
    granted by the model's first region only.
    """
    model = platform.models[name]
    access: dict[str, BucketAccessArgs] = {}
    if not model.weights.startswith("gs://"):
        access["models"] = {"access": "read", "bucket": buckets["models"]}
    elif region == next(iter(platform.regions_of(model))):
        access["weights"] = {"access": "read", "bucket": model.weights.split("/")[2]}
    if uses_tpu(platform, model, region):
        access["caches"] = {"access": "write", "bucket": buckets["caches"]}
    return WorkloadIdentityArgs(
        bucket_roles=access,
        namespace=NAMESPACE,
        project=platform.project,
        project_number=str(platform.project_number),
        service_account_name=object_name(name),
    )


def disk_args(platform: Platform, name: str, region: str) -> ModelDiskArgs | None:
    """Return the arguments of a model's disks in a region, where it has them."""
    disk = platform.models[name].disk
    if disk is None:
        return None
    return ModelDiskArgs(
        claim_name=claim_name(name),
        disk_name=Names(platform).disk(name, region),
        labels={"env": platform.environment},
        namespace=NAMESPACE,
        project=platform.project,
        size_gib=disk.size_gib,
        snapshot=disk.snapshot,
        throughput_mib_per_s=disk.throughput_mib_per_second,
        zones=[zone for zone in disk.zones if zone in platform.regions[region].zones],
    )


def claim_name(model: str) -> str:
    """Return the claim of a model's disks."""
    return f"{object_name(model)}-weights"


def server_args(platform: Platform, name: str, region: str) -> ModelServerArgs:
    """Return the arguments of a model's servers in one region."""
    model = platform.models[name]
    classes = class_names(platform, model.capacity, region)
    form = form_in(platform, model, region)
    words = intent_words(name, model, weights=lambda path: weights_uri(platform, path, region))
    args = ModelServerArgs(
        **words,
        compute_classes=classes,
        form=form.value,
        namespace=NAMESPACE,
        replicas=model.replicas.min,
        rungs=rungs(platform, model.capacity, region),
        service_account=object_name(name),
    )
    if uses_tpu(platform, model, region):
        args["cache_bucket"] = Names(platform).bucket("caches", region)
    if form is Form.PAIRED:
        args["standby_replicas"] = standby(model)
    if platform.monitoring.traces is not None:
        args["trace_percent"] = platform.monitoring.traces.sample_percent
    if model.disk is not None:
        args["weights_claim"] = claim_name(name)
    return args


def prefill_args(platform: Platform, name: str, region: str) -> ModelServerArgs | None:
    """Return the arguments of the servers that compute a model's prompts, where it has them."""
    model = platform.models[name]
    capacity = prefill_capacity(model)
    if model.disaggregated is None or capacity is None:
        return None
    args = server_args(platform, name, region)
    args["compute_classes"] = class_names(platform, capacity, region)
    args["replicas"] = model.disaggregated.prefill.replicas.min
    args["role"] = "prefill"
    args["rungs"] = rungs(platform, capacity, region)
    return args


def scaling_args(
    platform: Platform,
    name: str,
    region: str,
    deployments: dict[str, str],
    target_kinds: Mapping[str, str] | None = None,
) -> dict[str, AutoscalingArgs]:
    """Return the arguments of a model's autoscalers, by the name of what each one scales.

    `target_kinds` says, by kind of hardware, what is no Deployment.
    """
    model = platform.models[name]
    is_pair = len(deployments) > 1
    made: dict[str, AutoscalingArgs] = {}
    for kind, deployment in deployments.items():
        fills = is_pair and kind == "gpu"
        made[deployment] = AutoscalingArgs(
            cluster_location=location(platform, region),
            cluster_name=Names(platform).cluster(region),
            engine=model.engine.value,
            fills_unplaced=fills,
            kv_cache_percent=model.autoscaling.kv_cache_percent,
            max_replicas=model.replicas.max,
            min_replicas=standby(model) if fills else model.replicas.min,
            model=object_name(name),
            namespace=NAMESPACE,
            queue_depth=model.autoscaling.queue_depth,
            scale_in_delay_seconds=model.replicas.scale_in_delay_seconds,
            scale_in_every_seconds=model.replicas.scale_in_every_seconds,
            target_kind=(target_kinds or {}).get(kind, "Deployment"),
            target_name=deployment,
        )
        if model.disaggregated is not None:
            made[deployment]["signals"] = ["kv-cache"]
        if model.autoscaling.running_requests is not None:
            made[deployment]["running_requests"] = model.autoscaling.running_requests
    return made


def prefill_scaling_args(
    platform: Platform, name: str, deployments: dict[str, str]
) -> dict[str, AutoscalingArgs]:
    """Return the arguments of the autoscalers of prefill replicas: prompts wait in their queue."""
    model = platform.models[name]
    if model.disaggregated is None:
        return {}
    replicas = model.disaggregated.prefill.replicas
    return {
        deployment: AutoscalingArgs(
            engine=model.engine.value,
            max_replicas=replicas.max,
            min_replicas=replicas.min,
            model=object_name(name),
            namespace=NAMESPACE,
            scale_in_delay_seconds=model.replicas.scale_in_delay_seconds,
            scale_in_every_seconds=model.replicas.scale_in_every_seconds,
            signals=["queue"],
            target_name=deployment,
        )
        for deployment in deployments.values()
    }


def monitoring_args(
    platform: Platform, name: str, server: ModelServer, *others: ModelServer
) -> MonitoringArgs:
    """Return the arguments of a model's scraping and series, over all its servers."""
    args = MonitoringArgs(
        deployments=[
            deployment for each in (server, *others) for deployment in each.deployments.values()
        ],
        engine=platform.models[name].engine.value,
        interval_seconds=platform.monitoring.scrape_seconds,
        model=object_name(name),
        namespace=NAMESPACE,
        selector=server.labels,
        target_port=server.port,
    )
    kinds = server.target_kinds
    groups = [of for kind, of in server.deployments.items() if kinds[kind] == "LeaderWorkerSet"]
    if groups:
        args["groups"] = groups
    if platform.models[name].disaggregated is not None:
        args["role_label"] = ROLE_LABEL
    if len(server.deployments) > 1:
        args["filled_deployment"] = server.deployments["tpu"]
    return args


def gateway_args(
    platform: Platform,
    region: str,
    servers: dict[str, ModelServer],
    subnetwork: pulumi.Input[str],
) -> InferenceGatewayArgs:
    """Return the arguments of a region's gateway, with the models that run there."""
    gateway = platform.gateway
    args = InferenceGatewayArgs(
        address_name=Names(platform).address(),
        exposure=gateway.exposure.value,
        gateway_name=Names(platform).gateway(),
        models=[
            _routed(platform, name, servers)
            for name in servers
            if not isinstance(platform.models[name], VersionedModel)
        ],
        namespace=NAMESPACE,
        project=platform.project,
        region=region,
        subnetwork=subnetwork,
    )
    if gateway.certificate is not None:
        args["certificate"] = gateway.certificate
    if gateway.hostname is not None:
        args["hostname"] = gateway.hostname
    if gateway.port is not None:
        args["port"] = gateway.port
    return args


def _routed(platform: Platform, name: str, servers: dict[str, ModelServer]) -> RoutedModelArgs:
    model, server = platform.models[name], servers[name]
    args = RoutedModelArgs(
        adapters=list(model.adapters),
        engine=model.engine.value,
        has_live_adapters=model.live_adapters is not None,
        model_name=name,
        pool_name=object_name(name),
        priority=model.priority,
        selector=server.labels,
        target_port=server.port,
        task=model.task.value,
        timeout_seconds=model.timeout_seconds,
    )
    if model.canary is not None:
        second = version_name(name, model.canary.version)
        args["canary"] = RoutedCanaryArgs(
            percent=model.canary.percent,
            pool_name=object_name(second),
            selector=servers[second].labels,
            version=model.canary.version,
        )
    if model.disaggregated is not None:
        args["prefill_threshold_tokens"] = model.disaggregated.threshold_tokens
    return args
