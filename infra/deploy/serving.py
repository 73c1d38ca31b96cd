"""Wires models into a region: identity, disk, servers, autoscalers, scraping and weights gate."""

from collections.abc import Mapping

import pulumi

from gke_inference.cluster.workload_identity import WorkloadIdentity
from gke_inference.observability.monitoring import Monitoring
from gke_inference.serving.autoscaling import Autoscaling
from gke_inference.serving.model_server import ModelServer
from gke_inference.serving.weights_gate import NAME as GATE
from gke_inference.serving.weights_gate import WeightsGate, WeightsGateArgs
from gke_inference.storage.model_disk import ModelDisk
from infra.deploy import serving_arguments as assemble_models
from infra.plan import RegionPlan, ServedModel


def serve(
    region: RegionPlan,
    served: ServedModel,
    buckets: Mapping[str, pulumi.Input[str]],
    opts: pulumi.ResourceOptions,
) -> ModelServer:
    """Serve a model in a region.

    Args:
        region: Region to serve it in.
        served: The model.
        buckets: Names of the region's buckets, by role.
        opts: Options with the cluster's Kubernetes provider and dependencies.
    """
    logical = f"{region.name}-{served.object_name}"
    identity = WorkloadIdentity(
        f"{logical}-identity", assemble_models.identity_args(served, buckets), opts
    )
    needed: list[pulumi.Resource] = [identity]
    disk = assemble_models.disk_args(served)
    if disk is not None:
        needed.append(ModelDisk(f"{logical}-disk", disk, opts))
    server = ModelServer(
        logical,
        assemble_models.server_args(served),
        pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=needed)),
    )
    behind = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[server]))
    scaling = assemble_models.scaling_args(region, served, server.target_kinds)
    for deployment, args in scaling.items():
        Autoscaling(f"{region.name}-{deployment}-scaling", args, behind)
    wait = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=needed))
    others: list[ModelServer] = []
    if served.prefill is not None:
        others.append(_serve_prefill(region, served.prefill, wait))
    behind = pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=others))
    monitoring = assemble_models.monitoring_args(served, server, *others)
    Monitoring(f"{logical}-monitoring", monitoring, behind)
    return server


def _serve_prefill(
    region: RegionPlan, prefill: ServedModel, opts: pulumi.ResourceOptions
) -> ModelServer:
    """Deploy the prefill replicas of a model."""
    args = assemble_models.server_args(prefill)
    server = ModelServer(f"{prefill.region}-{prefill.object_name}-prefill", args, opts)
    behind = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[server]))
    scaling = assemble_models.prefill_scaling_args(region, prefill, server.target_kinds)
    for deployment, scaled in scaling.items():
        Autoscaling(f"{prefill.region}-{deployment}-scaling", scaled, behind)
    return server


def open_models(
    region: RegionPlan,
    buckets: Mapping[str, pulumi.Input[str]],
    opts: pulumi.ResourceOptions,
) -> None:
    """Build the gate that starts a region's models once their weights are uploaded.

    Args:
        region: The region.
        buckets: Names of the region's buckets, by role.
        opts: Options with the cluster's Kubernetes provider and dependencies.
    """
    account = WorkloadIdentity(
        f"{region.name}-weights-gate-identity",
        assemble_models.gate_identity_args(region.serving, buckets),
        opts,
    )
    WeightsGate(
        f"{region.name}-weights-gate",
        WeightsGateArgs(namespace=region.namespace, service_account=GATE),
        pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[account])),
    )
