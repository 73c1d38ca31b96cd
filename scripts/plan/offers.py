"""The hardware that a model of a stack can have: offers for the planner's portfolio."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from gke_inference.catalogue.accelerators import zones_of
from gke_inference.catalogue.quotas import accelerator_metric, boot_disk, disk_metric, metric
from gke_inference.catalogue.rungs import Rung
from gke_inference.serving.updates import update_steps
from infra.estimate.claims import has_surge
from infra.plan import ServedModel
from infra.stack import Region
from planner.advice.portfolio import Key, Offer
from planner.advice.roles import Roles, can_move, roles_of
from planner.choice.candidates import Candidate
from planner.choice.plan import LADDER, Choice, plan
from planner.choice.question import Estimate, Question
from scripts.plan.proposals import Proposal
from scripts.plan.unchanged_parts import auto_key

ALL_GPUS = "GPUS_ALL_REGIONS"
MACHINES = "INSTANCES"
_PAID = "reservation"
_RUNG_USD = 10.0
"""Hourly cost of GPUs that take over that one more rung outweighs, at equal cost. Assumed."""


@dataclass(frozen=True)
class Asked:
    """A model of the stack to find hardware for."""

    name: str
    every: tuple[ServedModel, ...]
    """The model in each of its regions."""
    question: Question
    is_paired: bool
    regions: Mapping[str, Region]
    """Settings of its regions."""

    @property
    def minimum(self) -> int:
        """Minimum replicas in each region."""
        return self.every[0].replicas.min

    @property
    def buffer(self) -> int:
        """Replicas for which empty nodes are kept."""
        return self.every[0].buffer

    @property
    def standby(self) -> int:
        """Replicas on GPUs that are kept warm; 0 unless paired."""
        return max(one.standby for one in self.every)

    @property
    def added(self) -> int:
        """Replicas that an update adds."""
        return update_steps(self.minimum + self.standby)[0]


@dataclass(frozen=True)
class Side:
    """One kind of hardware with one order of rungs."""

    proposal: Proposal
    each: Mapping[Key, int]
    """Quota that a replica in each region needs, at most."""
    spare: Mapping[tuple[Key, str], int]
    """Quota of the node that an upgrade adds."""
    prefill: int = 0
    """Prefill replicas in each region, with those that an update adds."""

    @property
    def burden(self) -> float:
        """Disadvantage beside the cost: few rungs, and GPUs that are expensive when used."""
        made = self.proposal
        rungs = -_RUNG_USD * len(made.ladder)
        if not made.is_standby:
            return rungs
        return rungs + sum(one.usd_per_hour.value for one in made.choices if one.usd_per_hour)


def sides(asked: Asked, kind: str | None) -> Iterator[Side]:
    """Yield each hardware that all regions have, with each order of rungs.

    Args:
        asked: The model.
        kind: `tpu` or `gpu` for one half of a paired model, None for any hardware.

    Raises:
        InputError: No hardware of the catalog fits the model.
    """
    regions = asked.question.regions
    by_form: dict[Candidate, dict[str, dict[str, Choice]]] = {}
    for one in plan(asked.question).choices:
        if kind is not None and one.candidate.form.chip.kind != kind:
            continue
        if one.price is None or not _is_there(asked, one):
            continue
        by_form.setdefault(one.candidate, {}).setdefault(one.region, {})[one.provisioning] = one
    for candidate, found in by_form.items():
        if set(found) != set(regions):
            continue
        roles: dict[str, Roles] = {}
        for ways in _ladders(found):
            choices = tuple(
                next(found[region][way] for way in ways if way in found[region])
                for region in regions
            )
            if choices[0].keeps_promise:
                yield _side(asked, choices, ways, found, is_standby=kind == "gpu")
            if kind is None and len(regions) == 1 and can_move(candidate):
                made = _roles(asked.question, choices[0], roles)
                if made is not None and made.keeps_promise:
                    yield _side(asked, choices, ways, found, roles=made)


def _is_there(asked: Asked, one: Choice) -> bool:
    """Return whether the stack has a reservation for a choice, or a zone with its machines."""
    if one.provisioning == _PAID:
        return _reservation(asked, one) is not None
    listed = zones_of(one.candidate.form.word, one.region, one.provisioning)
    return not listed or not set(listed).isdisjoint(asked.regions[one.region].zones)


def _ladders(found: Mapping[str, Mapping[str, Choice]]) -> Iterator[tuple[str, ...]]:
    """Yield orders of rungs of which every region has one.

    A reservation is paid whether it is used or not, so it comes first. Each other way to buy is
    next in one order with all ways after it, and in one with those that use the same quota only.
    """
    word = next(one for ways in found.values() for one in ways.values()).candidate.form.word
    offered = [way for way in LADDER if any(way in ways for ways in found.values())]
    paid = tuple(way for way in offered if way == _PAID)
    others = [way for way in offered if way != _PAID]
    orders = [] if others else [paid]
    for first in others:
        after = [way for way in others if way != first]
        counted = accelerator_metric(word, first)
        alike = [way for way in after if accelerator_metric(word, way) == counted]
        orders += [(*paid, first, *after), (*paid, first, *alike)]
    for ways in dict.fromkeys(orders):
        if all(any(way in here for way in ways) for here in found.values()):
            yield ways


def _reservation(asked: Asked, one: Choice) -> Rung | None:
    """Return the model's reservation of a choice's hardware in its region, or None."""
    form = one.candidate.form
    wanted = (form.word, form.topology, form.count, form.hosts)
    for served in asked.every:
        for rung in served.rungs.values() if served.region == one.region else ():
            has = (rung.accelerator, rung.topology, rung.chips_per_node, rung.hosts)
            if rung.provisioning == _PAID and has == wanted:
                return rung
    return None


def _roles(question: Question, one: Choice, known: dict[str, Roles]) -> Roles | None:
    """Return disaggregated roles on a choice. Only the price depends on how it is bought."""
    made = known.get(one.provisioning)
    if made is None:
        made = roles_of(question, one)
        if made is not None:
            known[one.provisioning] = made
    return made


def _side(
    asked: Asked,
    choices: tuple[Choice, ...],
    ways: tuple[str, ...],
    found: Mapping[str, Mapping[str, Choice]],
    *,
    is_standby: bool = False,
    roles: Roles | None = None,
) -> Side:
    first, floor = choices[0], asked.minimum
    count, most = max(first.replicas, floor), max(first.replicas_high, first.replicas, floor)
    if roles is not None:
        count, most = max(roles.decode, floor), max(roles.decode_high, roles.decode, floor)
    if is_standby:  # the slow end would raise the maximum of the TPUs as well
        floor = count = asked.standby
        most = max(first.replicas, floor)
    else:
        most = max(most, asked.buffer)
    made = Proposal(
        asked.name, choices, ways, asked.question, floor, count, most,
        _usd(asked, choices, count, roles, is_standby=is_standby), roles, is_standby=is_standby,
    )  # fmt: skip
    each: dict[Key, int] = {}
    spare: dict[tuple[Key, str], int] = {}
    for one in choices:
        region = one.region
        here = [way for way in ways if way in found[region]]
        held = _reservation(asked, one) if _PAID in here else None
        counted = [
            way for way in here if way != _PAID or held is None or held.reservation_project is None
        ]
        _add(each, _amounts(one, counted, one.candidate.form.hosts))
        for way in here:
            is_slice = first.candidate.form.hosts > 1 and first.candidate.form.topology is not None
            if asked.regions[region].auto_provisioning_limits is None and has_surge(
                way, is_slice=is_slice
            ):
                added = _amounts(one, [way], 1)
                added.pop(auto_key(region, one.candidate.form.word))
                spare.update({(key, region): amount for key, amount in added.items()})
    few, prefill = made.prefill_replicas or (0, 0)
    return Side(made, each, spare, prefill + update_steps(few)[0])


def _usd(
    asked: Asked,
    choices: Sequence[Choice],
    count: int,
    roles: Roles | None,
    *,
    is_standby: bool,
) -> Estimate:
    """Return the cost of the replicas at the peak, and of the nodes that a buffer keeps."""
    prices = [one.price.usd_per_hour for one in choices if one.price is not None]
    if is_standby:
        return Estimate(*(sum(prices) * count,) * 3)
    kept = sum(prices) * asked.buffer
    least = sum(prices) * asked.minimum
    if roles is not None:
        low, high = roles.usd_per_hour.low, roles.usd_per_hour.high
        more = sum(prices) * max(0, asked.minimum - roles.decode)
        value = roles.usd_per_hour.value + more
        return Estimate(value + kept, min(low + more, value) + kept, max(high, value) + kept)
    costs = [one.usd_per_hour for one in choices if one.usd_per_hour is not None]
    low, high = sum(one.low for one in costs), sum(one.high for one in costs)
    value = sum(prices) * count
    return Estimate(value + kept, max(low, least) + kept, max(high, least) + kept)


def _amounts(one: Choice, ways: Sequence[str], nodes: int) -> dict[Key, int]:
    """Return the quotas of some nodes; any of the ways may have to run all of them."""
    form, region = one.candidate.form, one.region
    chips = nodes * form.count
    kind, gib = boot_disk(form.machine_type)
    found: dict[Key, int] = {
        (region, metric(MACHINES).label): nodes,
        (region, disk_metric(kind).label): nodes * gib,
        auto_key(region, form.word): chips,
    }
    for way in ways:
        counted = accelerator_metric(form.word, way)
        if counted is not None:
            found[region, counted.label] = chips
            if form.chip.kind == "gpu":
                found[None, metric(ALL_GPUS).label] = chips
    return found


def _add(sums: dict[Key, int], more: Mapping[Key, int]) -> None:
    for key, amount in more.items():
        sums[key] = sums.get(key, 0) + amount


def offer_of(asked: Asked, side: Side, standby: Side | None) -> Offer[Proposal]:
    """Return the offer of one hardware, or of TPUs with the GPUs that replace them.

    Either half of a paired model may have to serve alone, so the maximum suits the TPUs at the slow
    end of their interval and the GPUs at their estimate.
    """
    made = side.proposal
    most, usd, burden = made.most_replicas, made.usd_per_hour, side.burden
    if standby is not None:
        other = standby.proposal
        most = max(most, other.most_replicas, other.replicas)
        burden += standby.burden
        warm = other.usd_per_hour.value
        usd = Estimate(usd.value + warm, usd.low + warm, usd.high + warm)
    times = most + asked.added + asked.buffer + side.prefill
    uses = {key: amount * times for key, amount in side.each.items()}
    spare = dict(side.spare)
    if standby is not None:
        _add(uses, {key: one * (most + asked.added) for key, one in standby.each.items()})
        for place, amount in standby.spare.items():
            spare[place] = max(spare.get(place, 0), amount)
    made = replace(made, most_replicas=most, standby=None if standby is None else standby.proposal)
    return Offer(made, usd, uses, made.temporary_share, spare, burden)


def best_sides(found: Sequence[Side], limited: Mapping[Key, int]) -> list[Side]:
    """Return the sides that no other beats in cost, replicas, fallbacks and limited quotas."""
    kept: list[Side] = []
    for side in found:
        if not any(_beats(one, side, limited) for one in kept):
            kept = [one for one in kept if not _beats(side, one, limited)]
            kept.append(side)
    return kept


def _beats(one: Side, other: Side, limited: Mapping[Key, int]) -> bool:
    """Return whether a side is at least as good as another one in all that matters."""
    mine, its = one.proposal, other.proposal
    return (
        mine.usd_per_hour.value <= its.usd_per_hour.value
        and mine.temporary_share <= its.temporary_share
        and mine.most_replicas <= its.most_replicas
        and one.burden <= other.burden
        and one.prefill <= other.prefill
        and all(one.each.get(key, 0) <= other.each.get(key, 0) for key in limited)
        and all(
            amount <= other.spare.get(place, 0)
            for place, amount in one.spare.items()
            if place[0] in limited
        )
    )
