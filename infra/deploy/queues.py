"""The queues of a region: Kueue, each queue with its chips, and the namespaces of its teams."""

import pulumi

from gke_inference.operators.job_sets.job_set_operator import JobSetOperator, JobSetOperatorArgs
from gke_inference.operators.queue_operator import QueueOperator, QueueOperatorArgs
from gke_inference.queues.job_namespace import JobNamespace, JobNamespaceArgs
from gke_inference.queues.job_queue import (
    JobQueue,
    JobQueueArgs,
    QueueFlavorArgs,
    QueueTeamArgs,
    team_queue_name,
)
from infra.plan import RegionPlan
from infra.plan.queues import QueueFlavorPlan, QueuePlan, team_namespace


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
    operator = QueueOperator(f"{region.name}-kueue", operator_args(region), inside)
    behind = pulumi.ResourceOptions.merge(
        inside, pulumi.ResourceOptions(depends_on=[operator, *after])
    )
    resources: list[pulumi.Resource] = [
        JobQueue(f"queue-{queue.name}", queue_args(queue), behind) for queue in region.queues
    ]
    last = pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=resources))
    return [
        JobNamespace(f"{region.name}-jobs-{team}", args, last)
        for team, args in namespace_args(region).items()
    ]


def operator_args(region: RegionPlan) -> QueueOperatorArgs:
    """Return the arguments of Kueue in a region."""
    args = QueueOperatorArgs(metrics_namespace=region.metrics_namespace)
    if region.has_job_sets:
        args["job_sets"] = True
    return args


def queue_args(queue: QueuePlan) -> JobQueueArgs:
    """Return the arguments of a queue."""
    return JobQueueArgs(
        flavors=[_flavor(each) for each in queue.flavors],
        preempt=queue.settings.preempt,
        queue_name=queue.name,
        teams={team: _team(queue, team) for team in queue.settings.teams},
    )


def namespace_args(region: RegionPlan) -> dict[str, JobNamespaceArgs]:
    """Return the arguments of a region's job namespaces, by team name."""
    teams = dict.fromkeys(team for queue in region.queues for team in queue.settings.teams)
    return {
        team: JobNamespaceArgs(
            namespace=team_namespace(team),
            queues={
                queue.name: team_queue_name(queue.name, team)
                for queue in region.queues
                if team in queue.settings.teams
            },
        )
        for team in teams
    }


def _flavor(flavor: QueueFlavorPlan) -> QueueFlavorArgs:
    args = QueueFlavorArgs(chips=flavor.chips, compute_class=flavor.compute_class, kind=flavor.kind)
    if flavor.node_pool is not None:
        args["node_pool"] = flavor.node_pool
        hours = next(iter(flavor.capacity.rungs.values())).max_run_hours
        if hours is not None:
            args["max_run_seconds"] = hours * 3600
    if flavor.topology:
        args["topology"] = True
    return args


def _team(queue: QueuePlan, team: str) -> QueueTeamArgs:
    share = queue.settings.teams[team]
    classes = {each.capacity.name: each.compute_class for each in queue.flavors}
    args = QueueTeamArgs(
        chips={classes[name]: chips for name, chips in share.chips.items()},
        namespace=queue.namespaces[team],
    )
    if share.borrow is not None:
        args["borrow"] = share.borrow
    if share.lend is not None:
        args["lend"] = share.lend
    return args
