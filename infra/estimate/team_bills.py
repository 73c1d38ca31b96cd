"""Team bills: the cost of a platform, divided among its teams, idle capacity and the platform.

The charges of a bill always add up to the cost that `infra.estimate.stack_cost` has for the same
hours. A team pays for the tokens that it used or reserved, at what a token costs on a replica at
its target utilization. What is left of the accelerators is idle capacity.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from gke_inference.clients.settings import TeamSettings
from infra.estimate.cost_parts import ACCELERATORS
from infra.estimate.stack_cost import StackCost
from infra.estimate.unit_costs import DEFAULT_TRAFFIC, unit_costs
from infra.plan import Plan
from planner.amount import HOURS_PER_MONTH
from planner.choice.served import BUFFER, STANDBY
from planner.unit_cost.unit_cost import MILLION_INPUT, MILLION_TOKENS, UnitCost, blended

_MILLION: Final = 1e6
_MINUTES: Final = 60
UNUSED, KEPT, UNASSIGNED = "unused", "standby", "reservation"
"""Components of accelerators that no request used: replicas that serve, replicas and nodes that are
kept ready, and reserved machines without a model. The other components are the groups of a cost."""


class Payer(StrEnum):
    """Who a charge belongs to."""

    TEAM = "team"
    IDLE = "idle"
    PLATFORM = "platform"


class Basis(StrEnum):
    """What divides the accelerators among teams."""

    USAGE = "usage"
    RESERVATION = "reservation"


class Overhead(StrEnum):
    """What happens to idle capacity and the rest of the platform."""

    SEPARATE = "separate"
    SHARED = "shared"


@dataclass(frozen=True)
class Tokens:
    """Tokens and requests of one team at one model."""

    requests: int = 0
    prompt: int = 0
    """Prompt tokens, also those that were in a cache."""
    cached: int = 0
    """Prompt tokens that were in the KV cache of an engine."""
    completion: int = 0

    @property
    def computed(self) -> int:
        """Prompt tokens that were computed."""
        return self.prompt - min(self.cached, self.prompt)

    def __add__(self, other: "Tokens") -> "Tokens":
        """Return the sum."""
        return Tokens(
            self.requests + other.requests,
            self.prompt + other.prompt,
            self.cached + other.cached,
            self.completion + other.completion,
        )


@dataclass(frozen=True)
class Key:
    """A team's use of one model in one region."""

    team: str
    model: str
    region: str


@dataclass(frozen=True)
class TokenCost:
    """US dollars of a token on replicas at their target utilization, without discounts."""

    prompt: float
    completion: float

    def of(self, used: Tokens) -> float:
        """Return the dollars of computed prompt tokens and answer tokens."""
        return self.prompt * used.computed + self.completion * used.completion


@dataclass(frozen=True)
class Pool:
    """The accelerators of one model in one region, in US dollars over the hours of a bill."""

    model: str
    region: str
    serving: float
    """Replicas that serve."""
    kept: float
    """Standby replicas, and nodes that are kept empty."""
    each: TokenCost | None
    """None: the planner has no speed for the model, so its idle capacity is unknown."""


@dataclass(frozen=True)
class Charge:
    """One line of a bill."""

    payer: Payer
    team: str
    """Empty for idle capacity and the platform."""
    model: str
    """Empty for what belongs to no model."""
    region: str
    """Empty for the whole project."""
    component: str
    """A group of a cost, or one of `UNUSED`, `KEPT` and `UNASSIGNED`."""
    usd: float
    tokens: Tokens = Tokens()


@dataclass(frozen=True)
class TeamBill:
    """A bill: charges whose sum is the cost of the platform."""

    hours: float
    charges: tuple[Charge, ...]
    unknown: tuple[str, ...]
    """Models whose idle capacity is unknown: teams that use them pay for all of it."""
    elsewhere: tuple[str, ...]
    """Requested names that no accelerator of the stack serves, such as backends."""

    @property
    def usd(self) -> float:
        """Sum of all charges."""
        return sum(each.usd for each in self.charges)

    def of(self, payer: Payer) -> float:
        """Return the sum of one kind of payer."""
        return sum(each.usd for each in self.charges if each.payer is payer)

    def scaled(self, usd: float) -> "TeamBill":
        """Return the bill with another sum, divided in the same proportions."""
        factor = usd / self.usd if self.usd else 0.0
        charges = tuple(replace(each, usd=each.usd * factor) for each in self.charges)
        return replace(self, charges=charges)


def served_names(plan: Plan) -> dict[str, str]:
    """Return the model behind every name that clients request, and behind canary versions."""
    platform = plan.platform.models
    found = {name: name for name in platform}
    for name, model in platform.items():
        found |= dict.fromkeys(model.other_names(name), name)
    for name, every in plan.models.items():
        version = every[0].version
        found[name] = name if version is None else version.of
    return found


def pools_of(plan: Plan, cost: StackCost, field: str, hours: float) -> list[Pool]:
    """Return the accelerators of each model and region.

    Args:
        plan: The resolved stack.
        cost: Its cost.
        field: `minimum`, `expected` or `maximum`.
        hours: Length of the bill.
    """
    names = served_names(plan)
    serving: dict[tuple[str, str], float] = {}
    kept: defaultdict[tuple[str, str], float] = defaultdict(float)
    for line in cost.bill.lines:
        key = (names[line.served.model], line.served.region)
        usd = getattr(line, field).value * hours
        if line.served.role in (STANDBY, BUFFER):
            kept[key] += usd
            serving.setdefault(key, 0.0)
        else:
            serving[key] = serving.get(key, 0.0) + usd
    each = token_costs(plan, cost)
    return [
        Pool(model, region, usd, kept[model, region], each.get((model, region)))
        for (model, region), usd in serving.items()
    ]


def token_costs(plan: Plan, cost: StackCost) -> dict[tuple[str, str], TokenCost]:
    """Return what a token costs at each model and region, without models of unknown speed.

    The costs of prompts and answers are those that make requests with a whole prompt and with half
    of it cost what the planner estimates for both.
    """
    usual = DEFAULT_TRAFFIC
    half = replace(usual, given=usual.given // 2)
    names = served_names(plan)

    def by_place(lines: Sequence[UnitCost]) -> dict[tuple[str, str], list[UnitCost]]:
        found: defaultdict[tuple[str, str], list[UnitCost]] = defaultdict(list)
        for line in lines:
            if line.role not in (STANDBY, BUFFER):
                found[names[line.model], line.region].append(line)
        return found

    whole, shorter = (by_place(unit_costs(plan, cost.bill, one)) for one in (usual, half))
    made: dict[tuple[str, str], TokenCost] = {}
    for place, lines in whole.items():
        usd, less = blended(lines), blended(shorter[place])
        unit = lines[0].speed.unit
        if usd is None or less is None or not usd.value.value:
            continue
        if unit == MILLION_INPUT:
            made[place] = TokenCost(usd.value.value / _MILLION, 0.0)
        elif unit == MILLION_TOKENS:
            request, shorter_one = (
                one.value.value * usual.made / _MILLION for one in (usd, less)
            )  # dollars of one request
            prompt = max(0.0, (request - shorter_one) / (usual.given - half.given))
            prompt = min(prompt, request / (usual.given + usual.made))
            made[place] = TokenCost(prompt, (request - prompt * usual.given) / usual.made)
    return made


def team_bill(
    plan: Plan,
    cost: StackCost,
    used: Mapping[Key, Tokens],
    hours: float,
    *,
    basis: Basis = Basis.USAGE,
    overhead: Overhead = Overhead.SEPARATE,
    field: str = "expected",
) -> TeamBill:
    """Return the bill of a stack for some hours.

    Args:
        plan: The resolved stack.
        cost: Its cost.
        used: Tokens by team, requested name and region.
        hours: Length of the period.
        basis: What divides the accelerators.
        overhead: Whether teams share idle capacity and the platform.
        field: `minimum`, `expected` or `maximum` of the cost.
    """
    reserved = reservations(plan, hours) if basis is Basis.RESERVATION else None
    others: defaultdict[tuple[str, str], float] = defaultdict(float)
    for part in cost.parts:
        component = UNASSIGNED if part.group == ACCELERATORS else part.group
        others[component, part.region] += getattr(part, field).value * hours
    return divided(
        pools_of(plan, cost, field, hours),
        others,
        _by_model(used, served_names(plan)),
        hours,
        reserved=reserved,
        overhead=overhead,
    )


@dataclass(frozen=True)
class Reserved:
    """What a team has reserved in one region."""

    tokens: float
    """Tokens in the hours of the bill."""
    models: frozenset[str] | None
    """Models that it may request; None: all."""


def divided(
    pools: Iterable[Pool],
    others: Mapping[tuple[str, str], float],
    used: Mapping[Key, Tokens],
    hours: float,
    *,
    reserved: Mapping[tuple[str, str], Reserved] | None = None,
    overhead: Overhead = Overhead.SEPARATE,
) -> TeamBill:
    """Return the bill of some pools and of everything else.

    Args:
        pools: Accelerators of each model and region.
        others: US dollars of everything else by component and region.
        used: Tokens by team, model and region.
        hours: Length of the period.
        reserved: Reservations by team and region, which divide the accelerators; None: usage does.
        overhead: Whether teams share idle capacity and the platform.
    """
    every = list(pools)
    charges: list[Charge] = []
    for pool in every:
        mine = {
            key.team: tokens
            for key, tokens in used.items()
            if (key.model, key.region) == (pool.model, pool.region)
        }
        shares = _shares(pool, mine, _reserved_in(pool, every, reserved))
        charges += _of_pool(pool, mine, shares, overhead)
    charges += _of_platform(others, charges, overhead)
    places = {(pool.model, pool.region) for pool in every}
    return TeamBill(
        hours,
        tuple(charges),
        tuple(sorted({pool.model for pool in every if pool.each is None and pool.serving})),
        tuple(sorted({key.model for key in used if (key.model, key.region) not in places})),
    )


def _shares(
    pool: Pool, used: Mapping[str, Tokens], reserved: Mapping[str, float]
) -> dict[str, float]:
    """Return the dollars of each team for a pool; together at most those of the pool."""
    if pool.each is None:
        weights = {team: _weight(tokens) for team, tokens in used.items()}
        whole = sum(weights.values())
        return {team: pool.serving * one / whole for team, one in weights.items() if one}
    asked = {team: pool.each.of(tokens) for team, tokens in used.items()} | dict(reserved)
    whole = sum(asked.values())
    factor = min(1.0, pool.serving / whole) if whole else 0.0
    return {team: usd * factor for team, usd in asked.items()}


def _weight(tokens: Tokens) -> float:
    """Return the weight of a team's requests at a model whose token cost is unknown."""
    return float(tokens.computed + tokens.completion) or float(tokens.requests)


def _reserved_in(
    pool: Pool, pools: Sequence[Pool], reserved: Mapping[tuple[str, str], Reserved] | None
) -> dict[str, float]:
    """Return the dollars that each team has reserved in a pool.

    A reservation holds the same share of the tokens of every model that it is for.
    """
    found: dict[str, float] = {}
    for (team, region), one in (reserved or {}).items():
        if region != pool.region or not _is_for(one, pool):
            continue
        most = sum(
            _capacity(each) for each in pools if each.region == region and _is_for(one, each)
        )
        found[team] = pool.serving * min(1.0, one.tokens / most) if most else 0.0
    return found


def _is_for(one: Reserved, pool: Pool) -> bool:
    return one.models is None or pool.model in one.models


def _capacity(pool: Pool) -> float:
    """Return the tokens that a pool can process in the hours of the bill; 0 if unknown."""
    if pool.each is None:
        return 0.0
    usual = DEFAULT_TRAFFIC
    request = pool.each.of(Tokens(1, usual.given, 0, usual.made))
    return pool.serving / request * (usual.given + usual.made)


def _of_pool(
    pool: Pool, used: Mapping[str, Tokens], shares: Mapping[str, float], overhead: Overhead
) -> Iterator[Charge]:
    paid = sum(shares.values())
    unused = max(0.0, pool.serving - paid)
    idle = {UNUSED: unused, KEPT: pool.kept}
    for team, usd in shares.items():
        tokens = used.get(team, Tokens())
        yield Charge(Payer.TEAM, team, pool.model, pool.region, ACCELERATORS, usd, tokens)
    for component, usd in idle.items():
        if not usd:
            continue
        if overhead is Overhead.SEPARATE or not paid:
            yield Charge(Payer.IDLE, "", pool.model, pool.region, component, usd)
            continue
        for team, own in shares.items():
            part = usd * own / paid
            yield Charge(Payer.TEAM, team, pool.model, pool.region, component, part)


def _of_platform(
    others: Mapping[tuple[str, str], float], charges: Sequence[Charge], overhead: Overhead
) -> list[Charge]:
    by_team: defaultdict[str, float] = defaultdict(float)
    for each in charges:
        if each.payer is Payer.TEAM:
            by_team[each.team] += each.usd
    paid = sum(by_team.values())
    made: list[Charge] = []
    for (component, region), usd in others.items():
        if overhead is Overhead.SHARED and paid:
            made += [
                Charge(Payer.TEAM, team, "", region, component, usd * own / paid)
                for team, own in by_team.items()
            ]
            continue
        payer = Payer.IDLE if component == UNASSIGNED else Payer.PLATFORM
        made.append(Charge(payer, "", "", region, component, usd))
    return [each for each in made if each.usd]


def _by_model(used: Mapping[Key, Tokens], names: Mapping[str, str]) -> dict[Key, Tokens]:
    found: defaultdict[Key, Tokens] = defaultdict(Tokens)
    for key, tokens in used.items():
        found[replace(key, model=names.get(key.model, key.model))] += tokens
    return dict(found)


def reservations(plan: Plan, hours: float) -> dict[tuple[str, str], Reserved]:
    """Return what teams with a limit of tokens or dollars reserve, by team and region.

    The lowest limit counts. Dollars count as the tokens that they buy at the mean of the prices of
    the team's models. A team without such a limit reserves nothing.
    """
    if plan.clients is None:
        return {}
    names, settings = served_names(plan), plan.clients.settings
    usual = DEFAULT_TRAFFIC
    asked = {
        name: (
            price.input_usd_per_million * usual.given + price.output_usd_per_million * usual.made
        )
        / (usual.given + usual.made)
        for name, price in settings.prices.items()
    }
    found: dict[tuple[str, str], Reserved] = {}
    for name, region in plan.regions.items():
        if region.gate is None:
            continue
        for team, limits in region.gate.teams.items():
            own = settings.teams[team].models
            prices = [usd for model, usd in asked.items() if own is None or model in own]
            tokens = _reserved_tokens(limits, prices, hours)
            if tokens is None:
                continue
            models = None if own is None else frozenset(names.get(each, each) for each in own)
            found[team, name] = Reserved(tokens, models)
    return found


def _reserved_tokens(limits: TeamSettings, prices: Sequence[float], hours: float) -> float | None:
    months = hours / HOURS_PER_MONTH
    found: list[float] = []
    if limits.tokens_per_minute is not None:
        found.append(limits.tokens_per_minute * _MINUTES * hours)
    if limits.tokens_per_month is not None:
        found.append(limits.tokens_per_month * months)
    if limits.monthly_usd is not None and any(prices):
        mean = sum(prices) / len(prices)
        found.append(limits.monthly_usd * months / mean * _MILLION)
    return min(found, default=None)
