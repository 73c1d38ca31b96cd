"""How much traffic a rehearsal has by default: what replicas can answer and teams may send."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from infra.estimate.stack_cost import stack_cost
from infra.estimate.unit_costs import unit_costs
from infra.plan import Plan
from planner.amount import HOURS_PER_MONTH
from planner.choice.cost import Bill
from planner.unit_cost.unit_cost import SIZES, Traffic
from scripts.rehearse.describe import Described
from simulator.demand.default_day import HOURS, TEN_MINUTE_PEAK, default_day, shares_of
from simulator.demand.summary import ModelSummary, summary_of
from simulator.rehearsal.description import Limit, Platform, Team

_SAMPLE_HOURS, _SAMPLE_RATE = 1.0, 2.0
"""Traffic from which the mean lengths are taken: about 6,000 requests of a model."""
_MOST_SHARED = 0.99
_ANY = "any"
_LIMITS = ("requests_per_minute", "tokens_per_minute", "tokens_per_month", "usd_per_month")


@dataclass(frozen=True)
class Rates:
    """Mean requests per second by model, and the shares of its teams."""

    by_model: dict[str, float]
    teams_of: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Lengths:
    """Mean tokens of a model's requests on the default day."""

    prompt: float
    output: float
    shared: float
    """Share of the prompt tokens that other requests have sent before."""


def default_rates(plan: Plan, described: Described) -> Rates:
    """Return the mean requests per second with which the stack is as busy as `cost` expects.

    In the busiest hour, they keep the expected replicas of `cost` at the utilization that it
    assumes, for requests as long as those of the default day. In the highest ten minutes, the mean
    of no team exceeds its limits. A model without an estimate gets one request per second.
    """
    platform = described.platform
    lengths = {
        model.name: lengths_of(described.contexts.get(model.name)) for model in platform.models
    }
    bill = stack_cost(plan).bill
    busy = {name: _busy_rate(plan, bill, name, each) for name, each in lengths.items()}
    asked = {
        name: {team: (rate or 1.0) * share for team, share in _shares(platform, name).items()}
        for name, rate in busy.items()
    }
    for team in platform.teams:
        factor = min(1.0, _allowed(platform, team, {m: r.get(team, 0.0) for m, r in asked.items()},
                                   lengths))  # fmt: skip
        for rates in asked.values():
            if team in rates:
                rates[team] *= factor
    without = {name: rate or 1.0 for name, rate in busy.items() if not asked[name]}
    by_model = {name: sum(rates.values()) for name, rates in asked.items() if rates} | without
    return Rates(
        {name: by_model[name] for name in busy},
        {name: dict(rates) for name, rates in asked.items()} if platform.teams else {},
    )


def team_shares(platform: Platform) -> dict[str, dict[str, float]]:
    """Return the shares of the teams in the requests for each model that they may request."""
    if not platform.teams:
        return {}
    return {model.name: _shares(platform, model.name) for model in platform.models}


def _shares(platform: Platform, model: str) -> dict[str, float]:
    shares = dict(zip(platform.teams, shares_of(len(platform.teams)), strict=True))
    found = {
        name: share
        for name, share in shares.items()
        if platform.teams[name].models is None or model in (platform.teams[name].models or ())
    }
    return {name: share / sum(found.values()) for name, share in found.items()}


@cache
def lengths_of(context: int | None) -> Lengths:
    """Return the mean lengths of a model's requests on the default day, by its context."""
    contexts = {} if context is None else {_ANY: context}
    day = default_day({_ANY: _SAMPLE_RATE}, contexts=contexts, length_hours=_SAMPLE_HOURS)
    found: ModelSummary = summary_of(day).models[_ANY]
    return Lengths(found.prompts.mean, found.outputs.mean, min(found.shared_share, _MOST_SHARED))


def _busy_rate(plan: Plan, bill: Bill, model: str, lengths: Lengths) -> float:
    """Return the mean rate at which replicas are as busy as `cost` assumes; 0 if it is unknown."""
    own = Bill(tuple(line for line in bill.lines if line.served.model == model))
    traffic = Traffic(round(lengths.prompt), round(lengths.output), lengths.shared)
    found = 0.0
    for one in unit_costs(plan, own, traffic):
        units = one.units_per_hour
        if units is not None:
            is_output = one.speed.unit.endswith("output tokens")
            per_request = traffic.made if is_output else traffic.given
            found += units.value * SIZES[one.speed.unit] / 3600 / per_request
    return found / max(HOURS)


def _allowed(
    platform: Platform, team: str, rates: Mapping[str, float], lengths: Mapping[str, Lengths]
) -> float:
    """Return the factor of a team's mean rates that its limits allow."""
    prices = {model.name: model.usd_per_million for model in platform.models}
    requests = tokens = usd = 0.0  # per second
    for model, rate in rates.items():
        one = lengths[model]
        requests += rate
        tokens += rate * (one.prompt + one.output)
        given, made = prices[model]
        usd += rate * (one.prompt * given + one.output * made) / 1e6
    month = 3600 * HOURS_PER_MONTH
    used = {
        "requests_per_minute": 60 * TEN_MINUTE_PEAK * requests,
        "tokens_per_minute": 60 * TEN_MINUTE_PEAK * tokens,
        "tokens_per_month": month * tokens,
        "usd_per_month": month * usd,
    }
    found = [1.0]
    for name in _LIMITS:
        limit = _smallest(platform, platform.teams[team], name)
        if limit is not None and used[name] > 0:
            found.append(limit / used[name])
    return min(found)


def _smallest(platform: Platform, team: Team, name: str) -> float | None:
    """Return a limit over all regions, among which clients are divided evenly; None: no limit."""
    limits = [getattr(team.limits.get(region.name, Limit()), name) for region in platform.regions]
    known = [limit for limit in limits if limit is not None]
    return min(known) * len(limits) if known else None
