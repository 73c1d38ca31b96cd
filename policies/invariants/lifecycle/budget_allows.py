"""Disruption budgets allow node drains, and cover more than one replica."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import section
from policies.framework.rule import Invariant
from policies.objects.index import Obj
from policies.objects.scaling import replicas
from policies.objects.world import World


def _check(world: World) -> Iterator[Finding]:
    for budget in world.of("PodDisruptionBudget"):
        most = budget.at("spec", "maxUnavailable")
        if most in (0, "0", "0%"):
            yield broken(
                budget,
                "spec.maxUnavailable",
                most,
                "no pod may ever be evicted: upgrades wait for an hour, then evict it anyway, and "
                "a class cannot move it to a better rung",
                "write 1",
            )
        least = budget.at("spec", "minAvailable")
        if least is None:
            continue
        replicas = _replicas(world, budget)
        if least == "100%" or (isinstance(least, int) and replicas and least >= replicas):
            yield broken(
                budget,
                "spec.minAvailable",
                least,
                "the budget requires every pod, so none can be evicted",
                "write maxUnavailable: 1",
            )


def _replicas(world: World, budget: Obj) -> int:
    """Return the minimum number of pods, considering autoscalers."""
    total = 0
    for pod in world.selected(budget.namespace, section(budget.body, "spec", "selector")):
        total += replicas(pod)[0] * pod.hosts
    return total


RULE = Invariant(
    name="budget-allows",
    description="Disruption budgets allow evicting one pod at a time.",
    reference="google/skills gke-compute-classes: maxUnavailable 0 blocks active migration",
    check=_check,
)
