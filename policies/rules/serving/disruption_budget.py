"""Upgrades and migrations never evict all replicas of a model at once."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at, chips, is_kubernetes, pods, section
from policies.framework.resources import Resource
from policies.framework.rule import Config, OnObjects, StackRule

_is_server = is_kubernetes("Deployment", "LeaderWorkerSet", "RayCluster", "StatefulSet")
_is_budget = is_kubernetes("PodDisruptionBudget")


def _covers(budget: Resource, server: Resource) -> bool:
    here = at(server.props, "metadata", "namespace") or "default"
    if (at(budget.props, "metadata", "namespace") or "default") != here:
        return False
    wanted = section(budget.props, "spec", "selector", "matchLabels")
    return bool(wanted) and any(
        all(pod.labels.get(key) == value for key, value in wanted.items()) for pod in pods(server)
    )


def _check(resources: list[Resource], _: Config) -> Iterator[Finding]:
    budgets = [resource for resource in resources if _is_budget(resource)]
    for server in resources:
        if not _is_server(server) or not any(
            chips(container) for pod in pods(server) for _, container in pod.containers()
        ):
            continue
        if not any(_covers(budget, server) for budget in budgets):
            yield broken(
                server, "metadata.labels", "none for it", "must match a PodDisruptionBudget"
            )


RULE = StackRule(
    name="disruption-budget",
    description="Every server with accelerators has a PodDisruptionBudget.",
    check=_check,
    reference="GKE: plan for disruptions",
    on_objects=OnObjects(
        subject="lifecycle",
        fix="add a PodDisruptionBudget with maxUnavailable 1 for the pods",
    ),
)
