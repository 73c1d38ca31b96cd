"""Wires batches: the bucket, the service behind the gateway and its workers, in one region."""

from collections.abc import Mapping

import pulumi

from gke_inference.batches.batch_bucket import BatchBucket
from gke_inference.batches.batch_service import BatchService
from gke_inference.cluster.workload_identity import WorkloadIdentity
from gke_inference.serving.offline.batch_engine import BatchEngine
from infra.arguments import batches as assemble
from infra.arguments.offline import batch_engines as assemble_engines
from infra.plan import RegionPlan
from infra.plan.batches import SERVICE, batches_in
from infra.stack import Platform


def answer_batches(
    platform: Platform,
    region: RegionPlan,
    address: pulumi.Output[str],
    buckets: Mapping[str, pulumi.Input[str]],
    inside: pulumi.ResourceOptions,
    after: list[pulumi.Resource],
) -> None:
    """Build the batch service, if the stack has one in the region.

    Args:
        platform: The stack.
        region: The region.
        address: Address of the region's gateway.
        buckets: Buckets of the region by role.
        inside: Options with the cluster's Kubernetes provider and dependencies.
        after: Dependencies of the service: the namespaces and the gateway.
    """
    batches = batches_in(platform, region.name)
    if batches is None:
        return
    args = assemble.bucket_args(platform, batches, region)
    bucket: pulumi.Input[str] = batches.bucket
    if args is not None:
        bucket = BatchBucket(f"{region.name}-batches", args).bucket_name
    behind = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=after))
    name = f"{region.name}-{SERVICE}"
    identity = WorkloadIdentity(
        f"{name}-identity", assemble.identity_args(platform, bucket), behind
    )
    engines: dict[str, pulumi.Input[str]] = {}
    for own, served in assemble_engines.engines_in(batches, region).values():
        role = f"{name}-{served.object_name}"
        reads = assemble_engines.identity_args(platform, served, buckets, bucket)
        ready = WorkloadIdentity(f"{role}-identity", reads, behind)
        engines[served.object_name] = BatchEngine(
            role,
            assemble_engines.engine_args(platform, batches, region, own, served, bucket),
            pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=[ready])),
        ).job
    BatchService(
        name,
        assemble.service_args(platform, batches, region, address, bucket, engines),
        pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=[identity])),
    )
