"""Somebody is told before a month of production costs more than was meant."""

from collections.abc import Iterator

from policies.reading import CLUSTER, PRODUCTION_CONFIG, entries, is_production
from policies.rule import Config, Resource, StackRule

_BUDGET = "gcp:billing/budget:Budget"


def _check(resources: list[Resource], config: Config) -> Iterator[tuple[str, str]]:
    budgets = [each for each in resources if each.type == _BUDGET]
    for budget in budgets:
        if not entries(budget.props, "thresholdRules"):
            yield budget.urn, "thresholdRules: must have a share at which people are told, got none"
    if budgets:
        return
    for cluster in resources:
        if cluster.type == CLUSTER and is_production(cluster, config):
            yield cluster.urn, f"{_BUDGET}: must be in a stack of production, got none"
            return


STACK_RULE = StackRule(
    name="production-budget",
    description="A stack of production has a budget that tells people.",
    check=_check,
    reference="Google: best practices for cost optimisation (budgets and alerts)",
    level="advisory",
    config=PRODUCTION_CONFIG,
)
