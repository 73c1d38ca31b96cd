"""Wires the queues of a region: Kueue, each queue, and the namespaces of its teams."""

import pulumi

from gke_inference.operators.job_sets.job_set_operator import JobSetOperator, JobSetOperatorArgs
from gke_inference.operators.queue_operator import QueueOperator
from gke_inference.queues.job_namespace import JobNamespace
from gke_inference.queues.job_queue import JobQueue
from infra.arguments import queues as assemble
from infra.plan import RegionPlan


def build_queues(
    region: RegionPlan, inside: pulumi.ResourceOptions, after: list[pulumi.Resource]
) -> list[pulumi.Resource]:
    """Build the job queues of a region, and return the namespaces of its teams.

    Args:
        region: The region.
        inside: Options with the cluster's Kubernetes provider and dependencies.
        after: Compute classes of the chips.
    """
    if not region.queues:
        return []
    if region.has_job_sets:
        sets = JobSetOperator(f"{region.name}-job-sets", JobSetOperatorArgs(), inside)
        inside = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=[sets]))
    operator = QueueOperator(f"{region.name}-kueue", assemble.operator_args(region), inside)
    behind = pulumi.ResourceOptions.merge(
        inside, pulumi.ResourceOptions(depends_on=[operator, *after])
    )
    made: list[pulumi.Resource] = [
        JobQueue(f"queue-{queue.name}", assemble.queue_args(queue), behind)
        for queue in region.queues
    ]
    last = pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=made))
    return [
        JobNamespace(f"{region.name}-jobs-{team}", args, last)
        for team, args in assemble.namespace_args(region).items()
    ]
