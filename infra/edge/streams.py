"""Wires streams: the topics of each, and its workers in one region."""

import pulumi

from gke_inference.cluster.workload_identity import WorkloadIdentity
from gke_inference.streams.stream_table import StreamTable
from gke_inference.streams.stream_topics import StreamTopics
from gke_inference.streams.stream_worker import StreamWorker
from infra.arguments import streams as assemble
from infra.plan import RegionPlan
from infra.plan.streams import streams
from infra.stack import Platform


def stream_to_models(
    platform: Platform,
    region: RegionPlan,
    address: pulumi.Output[str],
    inside: pulumi.ResourceOptions,
    after: list[pulumi.Resource],
) -> None:
    """Build the streams whose workers are in a region.

    Args:
        platform: The stack.
        region: The region.
        address: Address of the region's gateway.
        inside: Options with the cluster's Kubernetes provider and dependencies.
        after: Dependencies of the workers: the namespace and the gateway.
    """
    behind = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=after))
    for stream in streams(platform):
        if stream.region != region.name:
            continue
        logical = f"stream-{stream.name}"
        identity = WorkloadIdentity(
            f"{logical}-identity", assemble.identity_args(platform, stream), behind
        )
        args = assemble.topics_args(platform, stream, identity.principal)
        # A project has no workload pool, and therefore no principals, before its first cluster.
        known = pulumi.ResourceOptions(depends_on=[identity])
        topics = None if args is None else StreamTopics(f"{logical}-topics", args, known)
        access = assemble.table_args(stream, identity.principal)
        table = None if access is None else StreamTable(f"{logical}-table", access, known)
        StreamWorker(
            logical,
            assemble.worker_args(platform, stream, region, address, topics),
            pulumi.ResourceOptions.merge(
                behind,
                pulumi.ResourceOptions(depends_on=[each for each in (identity, table) if each]),
            ),
        )
