"""The data of the page about a stack, from the functions behind the commands."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from infra.estimate.cold_starts import starts
from infra.estimate.quota_check import Limit, Standing, standings
from infra.estimate.quota_needs import Need, needs
from infra.estimate.stack_cost import StackCost, served, stack_cost
from infra.estimate.unit_costs import DEFAULT_TRAFFIC, ModelCost, by_model, unit_costs
from infra.plan import Plan
from infra.stack import Budget
from planner.amount import HOURS_PER_MONTH
from planner.choice.coldstart import DOUBLING_SECONDS
from planner.choice.cost import MEAN_SHARE, Bill
from planner.unit_cost.unit_cost import Traffic
from policies.checker.checker import check_objects
from policies.checker.rules import invariants
from policies.objects.documents import sources
from policies.objects.world import World, world_of
from policies.pack.rendered import findings
from scripts.report import risks, risks_capacity
from scripts.report.models import ServedModel, served_models
from scripts.report.places import Ladder, Place, ladders, places
from scripts.report.risks import Risk, Severity
from scripts.report.routes import Route, routes
from scripts.report.starts import Bar, bars
from scripts.report.versions import Versions, versions


@dataclass(frozen=True)
class Costs:
    """Costs of the stack, in dollars per hour."""

    cost: StackCost
    now: float | None
    """Current cost on the twin; None if nothing of the stack is running."""
    outdated: dict[str, list[str]]
    """Sources of prices that are `stale` or `undated`."""
    mean_share: float
    hours: int
    """Hours in a month."""
    units: dict[str, ModelCost]
    """Cost of a million tokens or a thousand images, by model."""
    traffic: Traffic
    """Assumed requests for the unit costs."""
    budget: Budget | None

    @property
    def bill(self) -> Bill:
        """Cost of accelerator machines."""
        return self.cost.bill

    @property
    def budget_at_list_price(self) -> float | None:
        """Monthly list price that the budget covers, in dollars."""
        return risks.at_list_price(self.budget) if self.budget is not None else None


@dataclass(frozen=True)
class Page:
    """The whole page."""

    stack: str
    title: str
    project: str
    endpoint: str
    is_named: bool
    """Whether the endpoint has a host name."""
    exposure: str
    is_protected: bool
    day: date
    resources: int
    objects: int
    rules: int
    """Number of invariants checked."""
    costs: Costs
    places: tuple[Place, ...]
    ladders: tuple[Ladder, ...]
    models: tuple[ServedModel, ...]
    routes: tuple[Route, ...]
    bars: tuple[Bar, ...]
    doubling: float
    """Shortest doubling time of traffic for spare replicas, in seconds."""
    quota: tuple[Standing, ...]
    """Maximum need for each accelerator quota, against the twin's limits."""
    risks: tuple[Risk, ...]
    versions: Versions

    @property
    def bars_by_model(self) -> dict[str, list[Bar]]:
        """Bars of each model, in the order of its ladder."""
        found: dict[str, list[Bar]] = {}
        for bar in self.bars:
            found.setdefault(bar.model, []).append(bar)
        for group in found.values():
            rungs = list(dict.fromkeys(bar.rung for bar in group))
            group.sort(key=lambda bar: rungs.index(bar.rung))
        return found

    @property
    def quota_by_metric(self) -> dict[str, dict[str, Standing]]:
        """Standing of each accelerator quota, by name and region."""
        found: dict[str, dict[str, Standing]] = {}
        for one in self.quota:
            found.setdefault(one.need.metric.label, {})[one.need.region or ""] = one
        return found

    def count(self, severity: str) -> int:
        """Return the number of risks of a severity."""
        return sum(risk.severity is Severity(severity) for risk in self.risks)


def unknown_limit(need: Need) -> Limit | None:
    """Return that the limit of a quota is not known."""
    del need
    return None


def page(
    plan: Plan,
    stack: str,
    folder: Path,
    *,
    day: date,
    now: float | None = None,
    limit_of: Callable[[Need], Limit | None] = unknown_limit,
) -> Page:
    """Return the data of the page about a stack.

    Args:
        plan: Stack.
        stack: Name of the stack.
        folder: Folder with the output of `render`.
        day: Date for the age of prices.
        now: Current hourly cost; None if nothing is running.
        limit_of: Function that returns the limit of a quota; None if unknown.
    """
    platform = plan.platform
    read = sources([folder])
    worlds = [world_of(source) for source in read]
    report = check_objects(read, [listed.rule for listed in invariants().values()])
    lines, started = served(plan), starts(plan)
    whole = stack_cost(plan)
    outdated, units = whole.outdated(day), unit_costs(plan, whole.bill, DEFAULT_TRAFFIC)
    resources = next((source.resources for source in read if source.resources), ())
    locked, asked = versions(plan, worlds), standings(needs(plan), limit_of)
    found = [
        *risks.of_rules(report),
        *risks.of_policies(findings(resources)),
        *risks_capacity.of_capacity(plan),
        *risks_capacity.of_quota(asked, platform.project),
        *risks_capacity.of_speed(plan, units),
        *risks_capacity.of_starts(started),
        *risks_capacity.of_replicas(lines, started),
        *risks.of_versions(locked),
        *risks.of_budget(platform.budget, whole),
        *risks.of_prices(whole, outdated),
    ]
    return Page(
        stack=stack,
        title=plan.names.title(),
        project=platform.project,
        endpoint=platform.gateway.endpoint("ADDRESS"),
        is_named=platform.gateway.hostname is not None,
        exposure=platform.gateway.exposure.value,
        is_protected=platform.protection,
        day=day,
        resources=len(resources),
        objects=report.objects,
        rules=report.rules,
        costs=Costs(
            whole,
            now,
            outdated,
            MEAN_SHARE,
            HOURS_PER_MONTH,
            by_model(units),
            DEFAULT_TRAFFIC,
            platform.budget,
        ),
        places=places(plan, lines),
        ladders=ladders(plan),
        models=served_models(plan),
        routes=_in_order(plan, routes(_of_regions(plan, worlds))),
        bars=bars(plan, started),
        doubling=DOUBLING_SECONDS,
        quota=tuple(one for one in asked if one.need.kind == "accelerator"),
        risks=risks.ordered(found),
        versions=locked,
    )


def _of_regions(plan: Plan, worlds: list[World]) -> list[World]:
    """Return the clusters in the order of the stack's regions."""
    order = {region.cluster_name: at for at, region in enumerate(plan.regions.values())}
    return sorted(worlds, key=lambda world: order.get(world.name, len(order)))


def _in_order(plan: Plan, found: tuple[Route, ...]) -> tuple[Route, ...]:
    """Return routes in the order of the stack's models, those of no model last."""
    order = list(plan.platform.models)

    def key(route: Route) -> int:
        return min((order.index(name) for name in route.names if name in order), default=len(order))

    return tuple(sorted(found, key=key))
