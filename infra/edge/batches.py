"""Wires batches: the bucket, the service behind the gateway and its workers, in one region."""

import pulumi

from gke_inference.batches.batch_bucket import BatchBucket
from gke_inference.batches.batch_service import BatchService
from gke_inference.cluster.workload_identity import WorkloadIdentity
from infra.arguments import batches as assemble
from infra.plan import RegionPlan
from infra.plan.batches import SERVICE, batches_in
from infra.stack import Platform


def answer_batches(
    platform: Platform,
    region: RegionPlan,
    address: pulumi.Output[str],
    inside: pulumi.ResourceOptions,
    after: list[pulumi.Resource],
) -> None:
    """Build the batch service, if the stack has one in the region.

    Args:
        platform: The stack.
        region: The region.
        address: Address of the region's gateway.
        inside: Options with the cluster's Kubernetes provider and dependencies.
        after: Dependencies of the service: the namespace and the gateway.
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
    BatchService(
        name,
        assemble.service_args(platform, batches, region, address, bucket),
        pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=[identity])),
    )
