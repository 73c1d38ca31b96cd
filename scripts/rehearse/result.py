"""The result of a rehearsal: requests, objectives, dollars, replicas. Free of text and colors."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from infra.estimate.stack_cost import StackCost
from infra.estimate.team_bills import Key, Pool, TeamBill, Tokens, divided
from infra.stack import Budget
from planner.amount import HOURS_PER_MONTH
from simulator.rehearsal.accounts import PERCENTILE, Outcomes
from simulator.rehearsal.run import Rehearsal, usd_per_hour

_Sums = defaultdict[str, float]
_PERCENTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))


@dataclass(frozen=True)
class Objective:
    """A latency objective of a model, and what the rehearsal found."""

    model: str
    metric: str
    """`ttft_p95_ms` or `tpot_p95_ms`."""
    target_ms: float
    found_ms: float | None
    """None without an answer."""
    late: int
    """Answers that took longer."""
    answered: int

    @property
    def is_kept(self) -> bool:
        """Whether at most 5 percent of the answers took longer, and there is one."""
        return self.answered > 0 and self.late <= (1 - PERCENTILE) * self.answered


@dataclass(frozen=True)
class Spent:
    """Dollars of accelerator machines at list price."""

    total: float
    by_model: dict[str, float]
    by_region: dict[str, float]
    by_provisioning: dict[str, float]
    by_team: dict[str, float]
    """Dollars of each model, divided by the tokens of answered requests. What no team used is
    `idle`. The sum is `total`."""
    without_price: dict[str, float]
    """Hours of machines without a published price, which are excluded."""


@dataclass(frozen=True)
class BudgetCheck:
    """A month of such days against the budget."""

    monthly_usd: float
    limit_usd: float
    """What the budget buys at list price."""

    @property
    def is_kept(self) -> bool:
        """Whether the budget covers a month of such days."""
        return self.monthly_usd <= self.limit_usd


@dataclass(frozen=True)
class Result:
    """The result."""

    rehearsal: Rehearsal
    totals: Outcomes
    by_model: dict[str, Outcomes]
    objectives: tuple[Objective, ...]
    spent: Spent
    fallback_usd: dict[str, float]
    """Dollars of the fallbacks of models, at the prices of `clients.prices`, by model."""
    others_usd: float
    """What `cost` expects for everything but accelerators, over the length."""
    expected_usd: float
    """What `cost` expects for accelerators, over the length."""
    budget: BudgetCheck | None

    @property
    def hours(self) -> float:
        """Length of the traffic."""
        return self.rehearsal.traffic.seconds / 3600

    @property
    def broken(self) -> list[str]:
        """The objectives and the budget that do not hold, one line each."""
        found = [
            f"{one.model}: {one.metric} of {one.target_ms:g} ms: {_of(one.late, one.answered)} late"
            if one.answered
            else f"{one.model}: {one.metric} of {one.target_ms:g} ms: no answer"
            for one in self.objectives
            if not one.is_kept
        ]
        if self.budget is not None and not self.budget.is_kept:
            found.append(
                f"budget of ${self.budget.limit_usd:,.0f} a month: "
                f"${self.budget.monthly_usd:,.0f} at this rate"
            )
        return found


def _of(part: int, whole: int) -> str:
    return f"{part / whole:.1%}"


def result_of(rehearsal: Rehearsal, cost: StackCost, budget: Budget | None) -> Result:
    """Return the result of a rehearsal that has ended.

    Args:
        rehearsal: The rehearsal.
        cost: Cost of the stack, as `cost` estimates it.
        budget: Budget of the stack.
    """
    by_model: dict[str, Outcomes] = {}
    totals = Outcomes()
    for (model, _), found in rehearsal.outcomes.items():
        by_model[model] = by_model.get(model, Outcomes()).plus(found)
        totals = totals.plus(found)
    hours = rehearsal.traffic.seconds / 3600
    spent = spent_by(rehearsal)
    bill = cost.bill.total("expected").value
    others = cost.total("expected").value - bill
    return Result(
        rehearsal,
        totals,
        by_model,
        tuple(_objectives(rehearsal, by_model)),
        spent,
        usd_by_model(rehearsal.gates.fallback_usd),
        others * hours,
        bill * hours,
        None if budget is None else _budget(budget, cost, spent.total / hours),
    )


def usd_by_model(usd: Mapping[tuple[str, str], float]) -> dict[str, float]:
    """Return dollars by model, from those by model and region."""
    found = _Sums(float)
    for (model, _), each in usd.items():
        found[model] += each
    return dict(found)


def _budget(budget: Budget, cost: StackCost, accelerators: float) -> BudgetCheck:
    """Return a month at the cost of the rehearsal's accelerators, in dollars an hour."""
    counted = cost.counted(budget.covers, "expected").value
    counted += accelerators - cost.bill.total("expected").value
    limit = budget.monthly_usd / (1 - budget.discount_percent / 100)
    return BudgetCheck(counted * HOURS_PER_MONTH, limit)


def _objectives(rehearsal: Rehearsal, by_model: dict[str, Outcomes]) -> Iterator[Objective]:
    for model in rehearsal.platform.models:
        found = by_model[model.name]
        if not found.sent:
            continue
        for metric, target, late, durations in (
            ("ttft_p95_ms", model.slo.ttft_p95_ms, found.late_ttft, found.ttft),
            ("tpot_p95_ms", model.slo.tpot_p95_ms, found.late_tpot, found.tpot),
        ):
            if target is not None:
                seconds = durations.quantile(PERCENTILE)
                ms = None if seconds is None else seconds * 1000
                yield Objective(model.name, metric, target, ms, late, found.answers)


def spent_by(rehearsal: Rehearsal) -> Spent:
    """Return the dollars of a rehearsal's accelerator machines."""
    names = {
        version: model.name for model in rehearsal.platform.models for version, _ in model.versions
    }
    by_model, by_region, by_provisioning, by_team, without = (_Sums(float) for _ in range(5))
    for bought, seconds in rehearsal.machines.items():
        price = usd_per_hour(bought)
        if price is None:
            without[f"{bought.machine} {bought.provisioning} in {bought.region}"] += seconds / 3600
            continue
        usd = price * seconds / 3600
        by_model[names.get(bought.pool, "no model")] += usd
        by_region[bought.region] += usd
        by_provisioning[bought.provisioning] += usd
    for charge in _divided(by_model, rehearsal.tally.team_tokens).charges:
        by_team[charge.team or str(charge.payer)] += charge.usd
    total = sum(by_region.values())
    return Spent(
        total,
        dict(by_model),
        dict(by_region),
        dict(by_provisioning),
        dict(by_team),
        dict(without),
    )


def _divided(by_model: Mapping[str, float], tokens: Mapping[tuple[str, str], int]) -> TeamBill:
    """Return the dollars of each model, divided among teams; idle without tokens of a team."""
    pools = [Pool(model, "", usd, 0.0, None) for model, usd in by_model.items()]
    used = {Key(team, model, ""): Tokens(completion=n) for (model, team), n in tokens.items()}
    return divided(pools, {}, used, 0.0)


def as_data(found: Result, stack: str) -> dict[str, Any]:
    """Return a result as JSON values."""
    rehearsal, spent = found.rehearsal, found.spent
    return {
        "stack": stack,
        "seconds": rehearsal.traffic.seconds,
        "requests": _outcomes(found.totals),
        "models": {name: _outcomes(one) for name, one in found.by_model.items()},
        "regions": {
            region.name: _outcomes(
                _sum(one for (_, name), one in rehearsal.outcomes.items() if name == region.name)
            )
            for region in rehearsal.platform.regions
        },
        "teams": {
            name: {"answered": one.answered, "failed": one.failed, "reasons": dict(one.reasons)}
            for name, one in sorted(rehearsal.tally.teams.items())
        },
        "objectives": [
            {
                "model": one.model, "metric": one.metric, "target_ms": one.target_ms,
                "p95_ms": _rounded(one.found_ms), "late": one.late, "answered": one.answered,
                "is_kept": one.is_kept,
            }
            for one in found.objectives
        ],
        "usd": {
            "accelerators": round(spent.total, 2),
            "fallbacks": _money(found.fallback_usd),
            "others": round(found.others_usd, 2),
            "accelerators_expected_by_cost": round(found.expected_usd, 2),
            "by_model": _money(spent.by_model),
            "by_region": _money(spent.by_region),
            "by_team": _money(spent.by_team),
            "by_provisioning": _money(spent.by_provisioning),
            "machine_hours_without_price": _money(spent.without_price),
        },
        "budget": None
        if found.budget is None
        else {
            "usd_per_month": round(found.budget.monthly_usd, 2),
            "limit_usd_per_month": round(found.budget.limit_usd, 2),
            "is_kept": found.budget.is_kept,
        },
        "workloads": [
            {
                "name": one.workload.name,
                "region": one.workload.region,
                "missing_replica_hours": {
                    reason: round(seconds / 3600, 3) for reason, seconds in one.missing.items()
                },
                "replicas": [
                    [round(each.seconds, 2), each.ready, each.starting, each.pending, each.wanted]
                    for each in one.recorded
                ],
            }
            for one in rehearsal.workloads
        ],
        "events": [
            [round(each.seconds, 2), each.kind, each.region, each.message]
            for each in rehearsal.log.events
        ],
        "events_left_out": rehearsal.log.dropped,
        "broken": found.broken,
    }  # fmt: skip


def _sum(found: Any) -> Outcomes:
    total = Outcomes()
    for one in found:
        total = total.plus(one)
    return total


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _money(found: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in sorted(found.items())}


def _outcomes(one: Outcomes) -> dict[str, Any]:
    def milliseconds(durations: Any) -> dict[str, float | None]:
        found = {name: durations.quantile(share) for name, share in _PERCENTILES}
        return {name: None if s is None else round(1000 * s, 1) for name, s in found.items()}

    return {
        "sent": one.sent, "answered": one.answered, "answered_by_fallback": one.by_fallback,
        "refused": one.refused, "cut_off": one.cut, "lost": one.lost, "reasons": dict(one.reasons),
        "prompt_tokens": one.prompt_tokens,
        "output_tokens": one.output_tokens, "cached_tokens": one.cached_tokens,
        "ttft_ms": milliseconds(one.ttft), "tpot_ms": milliseconds(one.tpot),
    }  # fmt: skip
