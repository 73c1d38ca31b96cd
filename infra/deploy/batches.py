"""Batches: the bucket, the service behind the gateway and its workers, in one region."""

from collections.abc import Mapping

import pulumi

from gke_inference.batches.batch_bucket import BatchBucket, BatchBucketArgs
from gke_inference.batches.batch_service import BatchService
from gke_inference.batches.program import BatchModelArgs, BatchServiceArgs
from gke_inference.cluster.workload_identity import (
    BucketAccessArgs,
    WorkloadIdentity,
    WorkloadIdentityArgs,
)
from gke_inference.gateway.picker import METRICS_PORT as PICKER_METRICS_PORT
from gke_inference.gateway.settings import ProxyCallersArgs
from gke_inference.serving.offline.batch_engine import BatchEngine
from infra.deploy import batch_engines as assemble_engines
from infra.deploy.built_region import ServedRegion
from infra.deploy.identities import identity_of
from infra.plan import RegionPlan
from infra.plan.batches import SERVICE, BatchModel, BatchPlan
from infra.plan.names import object_name


def answer_batches(served: ServedRegion, needed: list[pulumi.Resource]) -> None:
    """Build the batch service, if the stack has one in the region.

    Args:
        served: The region.
        needed: Dependencies of the service: the namespaces and the gateway.
    """
    region = served.plan
    batches = region.batches
    if batches is None:
        return
    args = bucket_args(batches, region)
    bucket: pulumi.Input[str] = batches.bucket
    if args is not None:
        bucket = BatchBucket(f"{region.name}-batches", args).bucket_name
    behind = served.after(*needed)
    name = f"{region.name}-{SERVICE}"
    identity = WorkloadIdentity(f"{name}-identity", identity_args(region, bucket), behind)
    engines: dict[str, pulumi.Input[str]] = {}
    for own, model in assemble_engines.engines_in(batches, region).values():
        role = f"{name}-{model.object_name}"
        reads = assemble_engines.identity_args(model, served.buckets, bucket)
        ready = WorkloadIdentity(f"{role}-identity", reads, behind)
        engines[model.object_name] = BatchEngine(
            role,
            assemble_engines.engine_args(batches, region, own, model, bucket),
            pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=[ready])),
        ).job
    BatchService(
        name,
        service_args(batches, served, bucket, engines),
        pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=[identity])),
    )


def bucket_args(batches: BatchPlan, region: RegionPlan) -> BatchBucketArgs | None:
    """Return the arguments of the bucket, or None if it exists."""
    if batches.settings.bucket is not None:
        return None
    args = BatchBucketArgs(
        bucket_name=batches.bucket,
        force_destroy=not region.project.is_protected,
        labels=region.project.labels,
        location=region.name,
        project=region.project.id,
        retention_days=batches.settings.retention_days,
    )
    if region.settings.data_key is not None:
        args["kms_key"] = region.settings.data_key
    return args


def identity_args(region: RegionPlan, bucket: pulumi.Input[str]) -> WorkloadIdentityArgs:
    """Return the arguments of the batch identity, with access only to the bucket."""
    access = {"batches": BucketAccessArgs(access="write", bucket=bucket)}
    return identity_of(region.project, region.namespace, SERVICE, access)


def service_args(
    batches: BatchPlan,
    served: ServedRegion,
    bucket: pulumi.Input[str],
    engines: Mapping[str, pulumi.Input[str]],
) -> BatchServiceArgs:
    """Return the arguments of the service and its workers.

    Args:
        batches: The batch service.
        served: The region.
        bucket: Name of the bucket.
        engines: Jobs of own engines, by the model's object name.
    """
    region, gateway, settings = served.plan, served.settings, batches.settings
    pools = dict.fromkeys(
        each.pool for each in batches.models if each.pool is not None and each.engine is None
    )
    args = BatchServiceArgs(
        bucket=bucket,
        cluster_name=region.cluster_name,
        deadline_seconds=settings.deadline_seconds,
        endpoint=served.endpoint,
        exposure=gateway.regional_exposure,
        gateway_name=region.names.gateway(),
        log_percent=gateway.log_percent,
        max_gib_per_team=settings.max_gib_per_team,
        max_workers=settings.workers.max,
        min_workers=settings.workers.min,
        models={model.name: _model(batches, model) for model in batches.models},
        namespace=region.namespace,
        pickers=[f"{pool}-picker.{region.namespace}.svc:{PICKER_METRICS_PORT}" for pool in pools],
        requests_per_worker=settings.workers.requests,
        retention_days=settings.retention_days,
        service_account=SERVICE,
        service_name=SERVICE,
    )
    if region.has_network_policies:
        args["callers"] = ProxyCallersArgs(
            metrics_namespace=region.metrics_namespace,
            proxies_cidr=region.settings.proxies,
        )
    if engines:
        args["engines"] = dict(engines)
    if gateway.hostname is not None:
        args["hostname"] = gateway.hostname
    if settings.key_secret is not None:
        args["key_secret"] = settings.key_secret
    if batches.teams is not None:
        args["teams"] = {name: list(models) for name, models in batches.teams.items()}
    return args


def _model(batches: BatchPlan, model: BatchModel) -> BatchModelArgs:
    args = BatchModelArgs(endpoints=list(model.endpoints))
    if model.engine is not None:
        args["engine"] = object_name(model.engine)
    elif model.pool is not None:
        args["objective"] = f"{model.pool}-{batches.settings.priority.value}"
    return args
