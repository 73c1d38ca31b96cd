"""Risks of a stack's capacity: ladders, zones, replicas, start times and quotas."""

from collections.abc import Iterable, Iterator, Sequence

from infra.estimate.cold_starts import Start
from infra.estimate.quota_check import Standing, request
from infra.plan import Plan, ServedModel
from planner.choice.served import BUFFER, PREFILL, Served
from planner.unit_cost.unit_cost import UnitCost
from scripts.report.number_formats import time
from scripts.report.risks import Risk, Severity, listed

_LASTING = frozenset(["reservation", "calendar", "on-demand"])


def of_capacity(plan: Plan) -> Iterator[Risk]:
    """Yield ladders without a fallback, and models that do not survive a zone or region failure."""
    for name, every in plan.models.items():
        if every[0].version is not None:
            continue  # covered by its model
        if len(every) == 1 and len(plan.regions) > 1:
            yield Risk(
                Severity.KNOW,
                "Region",
                f"{name} runs in one of {len(plan.regions)} regions",
                every[0].region,
                "add regions to the model if it must survive the loss of one",
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
            f"{name} has one rung, {rung.label}, and no fallback",
            f"{capacity} in {listed(served.region for served in short)}",
            "add a rung with another accelerator or another provisioning",
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
            f"{name} has no permanent rung: every machine can be reclaimed or expires",
            f"{capacity} in {listed(fleeting)}",
            "add an on-demand or reserved rung",
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
                    "add a zone that has it, or remove the rung",
                )
        known = {zone for place in found.values() for zone in place or ()}
        if len(known) == 1 and None not in found.values():
            alone += known
    if alone:
        yield Risk(
            Severity.FIX,
            "Zone",
            f"{name} has all its machines in a region in one zone",
            listed(alone),
            f"add a {'rung' if every[0].disk_zones is None else 'disk'} in another zone",
        )


def of_quota(found: Iterable[Standing], project: str) -> Iterator[Risk]:
    """Yield the insufficient quotas, each with the request to make."""
    for one in found:
        if one.short_by and one.limit is not None:
            need = one.need
            where = need.region or "all regions"
            yield Risk(
                Severity.STOPS,
                "Quota",
                f"{need.metric.label} is insufficient: needs {one.wanted}, "
                f"limit {one.limit.value}, missing {one.short_by}",
                f"{where}, for {listed(part.who for part in need.parts)}",
                request(one, project).command,
            )


def of_replicas(lines: Iterable[Served], starts: Iterable[Start]) -> Iterator[Risk]:
    """Yield models with one replica, with the longest outage of a region when it fails."""
    slowest: dict[str, Start] = {}
    for one in starts:
        known = slowest.get(one.model)
        if known is None or one.start.seconds > known.start.seconds:
            slowest[one.model] = one
    least: dict[tuple[str, str], int] = {}
    for line in lines:
        if line.role not in {BUFFER, PREFILL}:
            key = (line.model, line.region)
            least[key] = least.get(key, 0) + line.replicas.min
    alone = dict.fromkeys(model for (model, _), count in least.items() if count == 1)
    for name in alone:
        if one := slowest.get(name):
            yield Risk(
                Severity.FIX,
                "Replicas",
                f"{name} has one replica in a region: if it fails or its node is upgraded, "
                f"the region has no replica for up to {time(one.start.seconds)}",
                listed(region for (model, region), count in least.items()
                       if model == name and count == 1),
                "run two replicas, or one on standby",
            )  # fmt: skip


def of_speed(plan: Plan, units: Iterable[UnitCost]) -> Iterator[Risk]:
    """Yield the rungs on which a model misses its latency SLO at any load."""
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
            f"{model} on {rung} is estimated to miss its SLO at any load",
            f"{', '.join(dict.fromkeys(one.role for one in found))} in "
            f"{listed(one.region for one in found)}; {found[0].speed.basis}",
            "use a faster accelerator or fewer bits, or relax the SLO",
        )


def of_starts(starts: Iterable[Start]) -> Iterator[Risk]:
    """Yield the rungs that cannot start a replica within the stack's SLO."""
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
            f"slo.cold_start_s is {time(worst.limit or 0.0)}",
            listed(one.region for one in found),
            "move the image and weights closer, keep spare replicas, or relax the SLO",
        )
