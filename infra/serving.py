"""Wires one model into a region: identity, disk, servers, autoscalers and scraping."""

from collections.abc import Mapping

import pulumi

from gke_inference.cluster.workload_identity import WorkloadIdentity
from gke_inference.observability.monitoring import Monitoring
from gke_inference.serving.autoscaling import Autoscaling
from gke_inference.serving.model_server import ModelServer
from gke_inference.storage.model_disk import ModelDisk
from infra.arguments import models as assemble_models
from infra.plan.names import object_name
from infra.stack import Platform


def serve(
    platform: Platform,
    name: str,
    region: str,
    buckets: Mapping[str, pulumi.Input[str]],
    opts: pulumi.ResourceOptions,
) -> ModelServer:
    """Serve a model in a region.

    Args:
        platform: The stack.
        name: Name of the model.
        region: Region to serve it in.
        buckets: Names of the region's buckets, by role.
        opts: The cluster's Kubernetes provider, and what must be there before.
    """
    logical = f"{region}-{object_name(name)}"
    identity = WorkloadIdentity(
        f"{logical}-identity", assemble_models.identity_args(platform, name, region, buckets), opts
    )
    needed: list[pulumi.Resource] = [identity]
    disk = assemble_models.disk_args(platform, name, region)
    if disk is not None:
        needed.append(ModelDisk(f"{logical}-disk", disk, opts))
    server = ModelServer(
        logical,
        assemble_models.server_args(platform, name, region),
        pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=needed)),
    )
    behind = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[server]))
    scaling = assemble_models.scaling_args(
        platform, name, region, server.deployments, server.target_kinds
    )
    for deployment, args in scaling.items():
        Autoscaling(f"{region}-{deployment}-scaling", args, behind)
    wait = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=needed))
    others = _serve_prefill(platform, name, region, wait)
    behind = pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=others))
    monitoring = assemble_models.monitoring_args(platform, name, server, *others)
    Monitoring(f"{logical}-monitoring", monitoring, behind)
    return server


def _serve_prefill(
    platform: Platform, name: str, region: str, opts: pulumi.ResourceOptions
) -> list[ModelServer]:
    """Serve the prompts of a model apart from its answers, where it asks for that."""
    args = assemble_models.prefill_args(platform, name, region)
    if args is None:
        return []
    server = ModelServer(f"{region}-{object_name(name)}-prefill", args, opts)
    behind = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[server]))
    scaling = assemble_models.prefill_scaling_args(platform, name, server.deployments)
    for deployment, scaled in scaling.items():
        Autoscaling(f"{region}-{deployment}-scaling", scaled, behind)
    return [server]
