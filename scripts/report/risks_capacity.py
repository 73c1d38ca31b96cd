"""What can go wrong with what a stack runs on: ladders, zones, replicas, start times, quotas."""

from collections.abc import Iterable, Iterator, Sequence

from infra.cost.costing import Start
from infra.plan import Plan, ServedModel
from infra.quota.check import Standing, request
from planner.choice.cost import Served
from planner.unit_cost.unit_cost import UnitCost
from scripts.report.risks import Risk, Severity, listed
from scripts.report.words import time

_LASTING = frozenset(["reservation", "calendar", "on-demand"])


def of_capacity(plan: Plan) -> Iterator[Risk]:
    """Yield ladders that end too early, and models that the loss of a zone or region takes down."""
    for name, every in plan.models.items():
        if every[0].version is not None:
            continue  # what is so of its model
        if len(every) == 1 and len(plan.regions) > 1:
            yield Risk(
                Severity.KNOW,
                "Region",
                f"{name} runs in one of {len(plan.regions)} regions",
                every[0].region,
                "name more regions of the model, if it is to outlive one",
            )
        yield from _of_ladders(name, every)
        yield from _of_zones(name, every)


def _of_ladders(name: str, every: Sequence[ServedModel]) -> Iterator[Risk]:
    capacity = every[0].capacity.name
    short = [served for served in every if len(served.rungs) == 1]
    if short:
        (rung,) = short[0].rungs.values()
        yield Risk(
            Severity.FIX,
            "Capacity",
            f"{name} has one rung, {rung.label}, and nothing to fall back on",
            f"{capacity} in {listed(served.region for served in short)}",
            "add a rung of another accelerator or another way to buy it",
        )
    fleeting = [
        served.region
        for served in every
        if _LASTING.isdisjoint(rung.provisioning for rung in served.rungs.values())
    ]
    if fleeting:
        yield Risk(
            Severity.FIX,
            "Capacity",
            f"{name} has no rung that lasts: every machine can be taken back or ends by itself",
            f"{capacity} in {listed(fleeting)}",
            "add a rung on demand or reserved",
        )


def _of_zones(name: str, every: Sequence[ServedModel]) -> Iterator[Risk]:
    alone: list[str] = []
    for served in every:
        found = {rung.label: served.zones(at) for at, rung in served.rungs.items()}
        for label, place in found.items():
            if place is not None and not place:
                yield Risk(
                    Severity.STOPS,
                    "Capacity",
                    f"{name} cannot get {label} in {served.region}: none of its zones has it",
                    served.capacity.name,
                    "add a zone that has it, or take the rung out",
                )
        known = {zone for place in found.values() for zone in place or ()}
        if len(known) == 1 and None not in found.values():
            alone += known
    if alone:
        yield Risk(
            Severity.FIX,
            "Zone",
            f"{name} has all its machines of a region in one zone",
            listed(alone),
            f"add a {'rung' if every[0].disk_zones is None else 'disk'} in another zone",
        )


def of_quota(found: Iterable[Standing], project: str) -> Iterator[Risk]:
    """Yield the quotas that the stack can run out of, each with the request to make."""
    for one in found:
        if one.short_by and one.limit is not None:
            need = one.need
            where = need.region or "all regions"
            yield Risk(
                Severity.STOPS,
                "Quota",
                f"{need.metric.label} is short by {one.short_by}: asks for {one.wanted}, "
                f"limit {one.limit.value}",
                f"{where}, for {listed(part.who for part in need.parts)}",
                request(one, project).command,
            )


def of_replicas(lines: Iterable[Served], starts: Iterable[Start]) -> Iterator[Risk]:
    """Yield models of one replica, with how long a region is without it when it is lost."""
    slowest: dict[str, Start] = {}
    for one in starts:
        known = slowest.get(one.model)
        if known is None or one.start.seconds > known.start.seconds:
            slowest[one.model] = one
    least: dict[tuple[str, str], int] = {}
    for line in lines:
        if line.role != "prefill":
            key = (line.model, line.region)
            least[key] = least.get(key, 0) + line.minimum
    alone = dict.fromkeys(model for (model, _), count in least.items() if count == 1)
    for name in alone:
        if one := slowest.get(name):
            yield Risk(
                Severity.FIX,
                "Replicas",
                f"{name} keeps one replica in a region: when it is lost or its node upgraded, "
                f"nothing there answers for up to {time(one.start.seconds)}",
                listed(region for (model, region), count in least.items()
                       if model == name and count == 1),
                "keep two replicas, or one on standby",
            )  # fmt: skip


def of_speed(plan: Plan, units: Iterable[UnitCost]) -> Iterator[Risk]:
    """Yield the rungs on which a model keeps its promise of latency at no load."""
    by_rung: dict[tuple[str, str], list[UnitCost]] = {}
    for one in units:
        slo = plan.models[one.model][0].settings.slo
        has_promised = slo is not None and bool(slo.ttft_p95_ms or slo.tpot_p95_ms)
        if has_promised and not one.speed.keeps_promise:
            by_rung.setdefault((one.model, one.rung), []).append(one)
    for (model, rung), found in by_rung.items():
        yield Risk(
            Severity.FIX,
            "Latency",
            f"{model} on {rung} is too slow for its promise at any load, as planned",
            f"{', '.join(dict.fromkeys(one.role for one in found))} in "
            f"{listed(one.region for one in found)}; {found[0].speed.basis}",
            "take a faster accelerator, fewer bits, or promise less",
        )


def of_starts(starts: Iterable[Start]) -> Iterator[Risk]:
    """Yield the rungs that cannot start a replica within the stack's promise."""
    by_rung: dict[tuple[str, str], list[Start]] = {}
    for one in starts:
        if one.is_late:
            by_rung.setdefault((one.model, one.rung), []).append(one)
    for (model, rung), found in by_rung.items():
        worst = max(found, key=lambda one: one.start.seconds)
        yield Risk(
            Severity.FIX,
            "Cold start",
            f"{model} on {rung} starts in {time(worst.start.seconds)}, "
            f"slo.cold_start_s promises {time(worst.limit or 0.0)}",
            listed(one.region for one in found),
            "keep the image and the weights nearer, keep spare replicas, or promise less",
        )
