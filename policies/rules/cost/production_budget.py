"""Production has a budget that notifies people before costs exceed the plan."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import CLUSTER, PRODUCTION_CONFIG, entries, is_production
from policies.framework.resources import Resource
from policies.framework.rule import Config, StackRule

_BUDGET = "gcp:billing/budget:Budget"


def _check(resources: list[Resource], config: Config) -> Iterator[Finding]:
    budgets = [each for each in resources if each.type == _BUDGET]
    for budget in budgets:
        if not entries(budget.props, "thresholdRules"):
            yield broken(
                budget, "thresholdRules", "none", "must have a threshold for notifications"
            )
    if budgets:
        return
    for cluster in resources:
        if cluster.type == CLUSTER and is_production(cluster, config):
            yield broken(cluster, _BUDGET, "none", "must exist in a production stack")
            return


RULE = StackRule(
    name="production-budget",
    description="A production stack has a budget that notifies people.",
    check=_check,
    reference="Google: best practices for cost optimization (budgets and alerts)",
    level="advisory",
    config=PRODUCTION_CONFIG,
)
