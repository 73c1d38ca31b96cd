"""Arguments for models: everything needed to serve one in a region.

Every function is pure: it takes a part of a stack and the outputs of other components, and returns
arguments.
"""

from collections.abc import Mapping
from typing import Final, cast

import pulumi

from gke_inference.catalogue.engine_flags import flags
from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.files.buckets import bucket_in
from gke_inference.cluster.workload_identity import BucketAccessArgs, WorkloadIdentityArgs
from gke_inference.intent.intent import ModelServerArgs
from gke_inference.observability.demanded import Demand
from gke_inference.observability.monitoring import MonitoringArgs
from gke_inference.serving.autoscaling import AutoscalingArgs, TargetKind
from gke_inference.serving.disaggregation import ROLE_LABEL
from gke_inference.serving.model_server import ModelServer
from gke_inference.serving.pod_spec import LONGEST_ON_AUTOPILOT_SECONDS
from gke_inference.serving.settings import ScalingTargets
from gke_inference.serving.weights_gate import NAME as GATE
from gke_inference.storage.model_disk import ModelDiskArgs
from infra.deploy.identities import identity_of
from infra.plan import RegionPlan, ServedModel
from infra.plan.backends import pool_relay
from infra.plan.capacity import rungs
from infra.plan.engine import intent_words
from infra.plan.names import claim_name
from infra.plan.served import ServingSite
from infra.plan.storage import BUCKET_CLAIM
from infra.stack import EngineSettings, Form, Role, Task

_USAGE_FLAG: Final = "enable-force-include-usage"


def identity_args(
    served: ServedModel, buckets: Mapping[str, pulumi.Input[str]]
) -> WorkloadIdentityArgs:
    """Return the arguments of a model's identity in a region.

    A principal is the same in every cluster of a project, so only the model's first region grants
    access to a bucket that all regions share.
    """
    access: dict[str, BucketAccessArgs] = {}
    if served.site.grants_weights:
        access = weights_access(served, buckets["models"])
    if served.site.grants_caches:
        access["caches"] = {"access": "write", "bucket": buckets["caches"]}
    identity = identity_of(served.site.project, served.namespace, served.object_name, access)
    if secrets := granted_secrets(served):
        identity["secrets"] = secrets
    return identity


def granted_secrets(served: ServedModel) -> list[str]:
    """Return the secrets that an identity of a model may read, in the model's first region."""
    if not served.site.grants_weights or not served.is_first:
        return []
    return sorted(set(served.settings.settings.engine_secrets.values()))


def weights_access(served: ServedModel, models: pulumi.Input[str]) -> dict[str, BucketAccessArgs]:
    """Return read access to the buckets with the weights of a model and of its draft model.

    Each bucket is included once: two grants of one role are the same in Google Cloud, so the
    removal of either would remove both.

    Args:
        served: The model. Buckets outside the stack are included in its first region only.
        models: The platform's bucket of the region.
    """
    guess = served.settings.settings.speculative
    paths = {
        "weights": served.settings.weights,
        "draft": None if guess is None else guess.weights,
    }
    access: dict[str, BucketAccessArgs] = {}
    seen: set[str] = set()
    for title, path in paths.items():
        if path is None:
            continue
        named = bucket_in(path)
        bucket = served.site.storage.model_bucket if named is None else named
        if bucket in seen:
            continue
        seen.add(bucket)
        if named is None:
            access["models"] = BucketAccessArgs(access="read", bucket=models)
        elif served.is_first:
            access[title] = BucketAccessArgs(access="read", bucket=named)
    return access


def gate_identity_args(
    site: ServingSite, buckets: Mapping[str, pulumi.Input[str]]
) -> WorkloadIdentityArgs:
    """Return the arguments of the identity that checks for weights in a region's buckets."""
    access: dict[str, BucketAccessArgs] = {}
    if site.grants_weights:
        access["models"] = BucketAccessArgs(access="read", bucket=buckets["models"])
    for bucket in site.gated_buckets:
        access[bucket] = BucketAccessArgs(access="read", bucket=bucket)
    return identity_of(site.project, site.names.namespace(), GATE, access)


def disk_args(served: ServedModel) -> ModelDiskArgs | None:
    """Return the arguments of a model's disks in a region, if it has any."""
    disk = served.settings.disk
    if disk is None:
        return None
    args = ModelDiskArgs(
        claim_name=claim_name(served.name),
        disk_name=served.site.names.disk(served.name, served.region),
        labels=served.site.project.labels,
        namespace=served.namespace,
        project=served.site.project.id,
        size_gib=disk.size_gib,
        snapshot=disk.snapshot,
        throughput_mib_per_s=disk.throughput_mib_per_second,
        zones=list(served.disk_zones or ()),
    )
    key = served.site.settings.data_key
    if key is not None:
        args["kms_key"] = key
    return args


def server_args(served: ServedModel) -> ModelServerArgs:
    """Return the arguments of a model's servers, or of one role, in one region."""
    model, site = served.settings, served.site
    words = intent_words(
        served.name,
        model,
        weights=lambda path: site.names.weights(path, served.region),
        served_name=served.served_name,
    )
    args = ModelServerArgs(
        **words,
        compute_classes=dict(served.capacity.classes),
        form=served.form,
        namespace=served.namespace,
        replicas=served.replicas,
        rungs=rungs(served.capacity),
        service_account=served.object_name,
    )
    if site.is_autopilot:
        longest = min(model.timeout_seconds, LONGEST_ON_AUTOPILOT_SECONDS)
        args["longest_request_seconds"] = longest
        args["autopilot"] = True
    args["cache_bucket"] = site.names.bucket("caches", served.region)
    # a disk is a claim: pods without its files cannot start
    args["has_gate"] = model.disk is None
    settings: EngineSettings = words["settings"]
    if site.reports_usage and _USAGE_FLAG in flags(model.engine) and model.task is Task.GENERATE:
        # the last event of a stream contains its usage; the gate removes the event
        given = {_USAGE_FLAG: True, **(settings.engine_args or {})}
        settings = settings.model_copy(update={"engine_args": given})
    if served.buffer:
        args["buffer_replicas"] = served.buffer
    if settings.engine_secrets:
        at = f"projects/{site.project.id}/secrets"
        secrets = {name: f"{at}/{secret}" for name, secret in settings.engine_secrets.items()}
        settings = settings.model_copy(update={"engine_secrets": secrets})
    args["settings"] = settings
    if served.form is Form.PAIRED:
        args["standby_replicas"] = served.standby
    if site.trace_percent is not None:
        args["trace_percent"] = site.trace_percent
    if served.is_tuned:
        args["weights_bucket_claim"] = BUCKET_CLAIM
    if model.disaggregated is not None:
        args["role"] = Role(served.role)
    return args


def scaling_args(
    region: RegionPlan, served: ServedModel, target_kinds: Mapping[str, str] | None = None
) -> dict[str, AutoscalingArgs]:
    """Return the arguments of a model's autoscalers, by scale target name.

    `target_kinds` names the kind of targets that are not Deployments, by hardware kind.
    """
    model = served.settings
    by_kind = _scalers(region, served, model.autoscaling, target_kinds)
    for kind, scaler in by_kind.items():
        if kind == served.filling_kind:
            scaler["standby"] = served.standby
        if model.disaggregated is not None:
            scaler["signals"] = ["kv-cache"]
        if served.chips_by_model:
            scaler["chips_by_model"] = served.chips_by_model
    return {scaler["target_name"]: scaler for scaler in by_kind.values()}


def prefill_scaling_args(
    region: RegionPlan, served: ServedModel, target_kinds: Mapping[str, str] | None = None
) -> dict[str, AutoscalingArgs]:
    """Return the arguments of the prefill autoscalers, by scale target name.

    They follow the queue of prompts. The KV cache of a prefill replica says little of its load: it
    only holds blocks until decode replicas have read them.
    """
    if served.settings.disaggregated is None:
        return {}
    given = served.settings.disaggregated.prefill.autoscaling
    targets = ScalingTargets(queue_depth=given.queue_depth, running_requests=given.running_requests)
    found = _scalers(region, served, targets, target_kinds).values()
    return {scaler["target_name"]: {**scaler, "signals": ["queue"]} for scaler in found}


def _scalers(
    region: RegionPlan,
    served: ServedModel,
    targets: ScalingTargets,
    target_kinds: Mapping[str, str] | None,
) -> dict[str, AutoscalingArgs]:
    """Return what the autoscalers of each role have, by kind of hardware."""
    kinds = cast("Mapping[str, TargetKind]", target_kinds or {})
    return {
        kind: AutoscalingArgs(
            cluster_location=region.location,
            cluster_name=region.cluster_name,
            engine=served.settings.engine,
            model=served.object_name,
            namespace=served.namespace,
            replicas=served.replicas,
            scale_in_delay_seconds=served.settings.replicas.scale_in_delay_seconds,
            scale_in_every_seconds=served.settings.replicas.scale_in_every_seconds,
            target_kind=kinds.get(kind, "Deployment"),
            target_name=deployment,
            targets=targets,
        )
        for kind, deployment in served.deployments.items()
    }


def monitoring_args(
    served: ServedModel, server: ModelServer, *others: ModelServer
) -> MonitoringArgs:
    """Return the arguments of a model's scraping and recorded series, for all its servers."""
    args = MonitoringArgs(
        deployments=[
            deployment for each in (server, *others) for deployment in each.deployments.values()
        ],
        engine=served.settings.engine,
        interval_seconds=served.site.scrape_seconds,
        model=served.object_name,
        namespace=served.namespace,
        selector=server.labels,
        target_port=engine(served.settings.engine).metrics.port or server.port,
    )
    groups = [
        of
        for each in (server, *others)
        for kind, of in each.deployments.items()
        if each.target_kinds[kind] == "LeaderWorkerSet"
    ]
    if groups:
        args["groups"] = groups
    if served.settings.disaggregated is not None:
        args["role_label"] = ROLE_LABEL
    if served.has_kv_tiers:
        args["has_kv_tiers"] = True
    if served.chips_by_model:
        args["has_own_chips"] = True
    if served.schedules:
        args["schedules"] = served.schedules
    if served.is_from_zero:
        idle = served.from_zero.idle_seconds
        args["demand"] = Demand(idle_seconds=idle, relay_name=pool_relay(served.object_name))
    if len(server.deployments) > 1:
        args["filled_deployment"] = server.deployments[served.capacity.kinds[0]]
    return args
