"""`gke-inference plan --stack`: hardware for all models of a stack under a budget and quotas."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rich.console import Console

from gke_inference.catalogue.input_error import InputError
from infra.estimate.stack_cost import served
from infra.plan import Plan, resolve
from infra.reading.edit import write_models
from infra.reading.load import STACKS, platform_of, read, stack_names
from infra.stack import Layer
from infra.stack.problems import StackError
from planner.advice.portfolio import Key, Portfolio, Rest, frontier, total_uses, within
from planner.amount import HOURS_PER_MONTH
from planner.choice.cost import Bill, bill
from scripts.plan.filters import PLAN_OPTIONS
from scripts.plan.proposals import Proposal, placement_for
from scripts.plan.requirements import (
    Load,
    Requirements,
    limited_requirements,
    quotas_of,
    requirements_of,
)
from scripts.plan.stack_show import Shown, as_data, print_stack
from scripts.plan.unchanged_parts import auto_limits, peak_of, rest_of
from scripts.shared.quota_limits import Against, cloud_limits, twin_limits
from scripts.terminal.console import CheckFailedError, CommandError, console, errors
from scripts.terminal.options import check_one, check_positive, option_of
from scripts.terminal.output import Output, print_data

_LOAD = re.compile(r"([^=]+)=([0-9.]+)(?:,([1-9][0-9]*),([1-9][0-9]*))?")


@dataclass(frozen=True)
class Wanted:
    """Options of the command."""

    stack: str
    loads: tuple[str, ...]
    budget: float | None
    """Dollars per month."""
    limits: Against
    given: int
    made: int
    utilisation: float


def plan_stack(wanted: Wanted, *, is_written: bool, output: Output) -> None:
    """Print the frontier and the proposal within the budget, and write it if asked.

    Raises:
        CommandError: An option is not valid, or nothing is within the limits.
    """
    _check(wanted)
    resolved = _resolved(wanted.stack)
    costs = bill(served(resolved))
    found = _requirements(resolved, costs, wanted)
    if not found.planned:
        kept = "; ".join(f"{name}: {reason}" for name, reason in found.kept.items())
        raise CommandError(
            f"--stack: must have a model to plan, got none in {wanted.stack}: {kept or 'no models'}"
        )
    names = frozenset(found.loads)
    rest = rest_of(resolved, costs, names)
    limits, notes = _limits(resolved, found, wanted.limits)
    points = frontier(limited_requirements(found, limits), limits, rest)
    hourly = None if wanted.budget is None else wanted.budget / HOURS_PER_MONTH
    best = within(points, hourly)
    shown = Shown(
        found, points, best, limits, _kept_costs(costs, found), (*notes, *_unused(resolved, best))
    )
    if output.is_data:
        print_data(as_data(shown), output)
    else:
        print_stack(shown)
    if best is None:
        raise CheckFailedError(_nothing(points, wanted, rest, limits))
    if is_written:
        _write(wanted.stack, best, errors if output.is_data else console)


def _check(wanted: Wanted) -> None:
    """Check the numbers of options, which are not those of one model.

    Raises:
        CommandError: One is out of range.
    """
    if wanted.budget is not None:
        check_positive("--budget", wanted.budget)
    check_positive("--input", wanted.given)
    check_positive("--output", wanted.made)
    if not 0 < wanted.utilisation <= 1:
        rule = "must be above 0 and at most 1"
        raise CommandError(f"--utilization: {rule}, got {wanted.utilisation:g}")


def _resolved(stack: str) -> Plan:
    """Return a stack that has both models and their capacity.

    Raises:
        CommandError: There is none of that name, or it is not valid.
    """
    check_one("--stack", stack, stack_names(STACKS))
    try:
        platform = read(stack, STACKS)
    except StackError as error:
        raise CommandError(str(error)) from None
    if platform.layer is not Layer.ALL:
        rule = "must have layer all: models and their capacity are in different stacks otherwise"
        raise CommandError(f"--stack: {rule}, got {platform.layer.value} in {stack}")
    return resolve(platform)


def _requirements(resolved: Plan, costs: Bill, wanted: Wanted) -> Requirements:
    loads: dict[str, Load] = {}
    for name, load in (_load(text, wanted) for text in wanted.loads):
        if name in loads:
            raise CommandError(f"--load: must name each model once, got {name!r} twice")
        loads[name] = load
    unknown = [name for name in loads if name not in resolved.models]
    if unknown:
        known = ", ".join(resolved.models)
        raise CommandError(f"--load: must name one of {known}, got {unknown[0]!r}")
    usual = Load(0.0, wanted.given, wanted.made)
    document = platform_of(STACKS / f"Pulumi.{wanted.stack}.yaml")
    try:
        found = requirements_of(resolved, document, costs, loads, usual, wanted.utilisation)
    except InputError as error:
        raise CommandError(option_of(error, PLAN_OPTIONS)) from None
    for name in loads:
        if name in found.kept:
            rule = "must name a model whose hardware the plan can choose"
            raise CommandError(f"--load: {rule}, got {name!r}: {found.kept[name]}")
    return found


def _load(text: str, wanted: Wanted) -> tuple[str, Load]:
    found = _LOAD.fullmatch(text)
    rate = 0.0
    if found is not None:
        try:
            rate = float(found[2])
        except ValueError:
            rate = 0.0
    if found is None or rate <= 0:
        rule = "must be MODEL=RATE or MODEL=RATE,INPUT,OUTPUT with numbers above 0"
        raise CommandError(f"--load: {rule}, got {text!r}")
    lengths = Load(rate, wanted.given, wanted.made)
    if found[3] is not None:
        lengths = replace(lengths, given=int(found[3]), made=int(found[4]))
    return found[1], lengths


def _limits(
    resolved: Plan, found: Requirements, against: Against
) -> tuple[dict[Key, int], list[str]]:
    """Return the limits of the quotas that offers use, and notes on them."""
    source = cloud_limits(resolved) if against is Against.CLOUD else twin_limits()
    limits = auto_limits(resolved)
    unknown: list[str] = []
    for key, need in quotas_of(found).items():
        limit = source(need)
        if limit is None:
            unknown.append(f"{need.metric.label} in {need.region or 'all regions'}")
        elif limit.value is not None:
            limits[key] = limit.value
    notes = [*source.notes]
    if unknown:
        notes.append(f"limits not known, and not kept: {', '.join(unknown)}")
    return limits, notes


def _kept_costs(costs: Bill, found: Requirements) -> dict[str, float | None]:
    """Return the peak cost per hour of each model that stays as it is; None without a price."""
    kept: dict[str, float | None] = {}
    for name, part in costs.by("model").items():
        peak = peak_of(part, ())
        if name not in found.loads:
            kept[name] = None if peak.is_unknown else peak.value
    return kept


def _unused(resolved: Plan, best: Portfolio[Proposal] | None) -> list[str]:
    """Return notes on reservations of planned models that the proposal does not use."""
    if best is None:
        return []
    return [
        f"{name} no longer uses reservation {each}, which is paid all the same"
        for name, offer in best.chosen.items()
        for each in sorted(_left(resolved, offer.what))
    ]


def _left(resolved: Plan, made: Proposal) -> set[str]:
    """Return the reservations of a model that a proposal does not use."""
    parts = [made] if made.standby is None else [made, made.standby]
    forms = [one.choices[0].candidate.form for one in parts if "reservation" in one.ladder]
    used = {(form.word, form.topology, form.count) for form in forms}
    return {
        rung.reservation
        for served in resolved.models[made.model]
        for rung in served.rungs.values()
        if rung.reservation is not None
        and (rung.accelerator, rung.topology, rung.chips_per_node) not in used
    }


def _nothing(
    points: Sequence[Portfolio[Proposal]], wanted: Wanted, rest: Rest, limits: Mapping[Key, int]
) -> str:
    if points and wanted.budget is not None:
        least = min(one.usd_per_hour.value for one in points) * HOURS_PER_MONTH
        return f"--budget: must be at least ${least:,.0f} a month, got {wanted.budget:,.0f}"
    used = total_uses([rest.uses], [rest.spare])
    over = [
        f"{label} in {region or 'all regions'}: {used[region, label]:,} of {most:,}"
        for (region, label), most in limits.items()
        if used.get((region, label), 0) > most
    ]
    why = f"; what stays as it is exceeds {', '.join(over)}" if over else ""
    return f"--stack: must fit the quotas, got no hardware for all models of {wanted.stack}{why}"


def _write(stack: str, best: Portfolio[Proposal], output: Console) -> None:
    """Write a portfolio to the stack.

    Raises:
        CommandError: The stack would be invalid; its file is unchanged.
    """
    placements = {name: placement_for(offer.what) for name, offer in best.chosen.items()}
    try:
        file = write_models(stack, placements, STACKS)
    except StackError as error:
        raise CommandError(f"--write: {stack} is unchanged: {error}") from None
    output.print(f"wrote {len(placements)} models to {file}")
