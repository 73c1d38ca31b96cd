"""The result of a rehearsal on the terminal: first the figures that decide."""

from collections.abc import Iterator

from scripts.rehearse.result import Result
from scripts.terminal.console import console
from scripts.terminal.tables import Listing, figure, measured, print_table, prose
from simulator.rehearsal.accounts import PERCENTILE
from twin.drawings.timeline import clock

_EVENTS = 12


def headlines(found: Result) -> Iterator[str]:
    """Yield the lines that decide: answered, refused, late, dollars, and what does not hold."""
    totals = found.totals
    sent = max(totals.sent, 1)
    yield (
        f"{totals.sent:,} requests in {found.hours:g} h: {totals.answered:,} answered "
        f"({totals.answered / sent:.2%}), {totals.refused:,} refused, {totals.cut:,} cut off by a "
        f"timeout, {totals.lost:,} lost with their replica"
    )
    if totals.by_fallback:
        usd = sum(found.fallback_usd.values())
        yield f"{totals.by_fallback:,} more answered by fallbacks, for ${usd:,.2f}"
    yield from _late(found)
    spent = found.spent.total
    yield (
        f"Accelerators ${spent:,.2f}, where `cost` expects ${found.expected_usd:,.2f}; "
        f"everything else ${found.others_usd:,.2f}, as `cost` expects it"
    )
    if found.budget is not None:
        word = "kept" if found.budget.is_kept else "BROKEN"
        yield (
            f"Budget {word}: ${found.budget.monthly_usd:,.0f} a month at this rate, "
            f"${found.budget.limit_usd:,.0f} covered"
        )


def _late(found: Result) -> Iterator[str]:
    if not found.objectives:
        yield "No model has a latency objective (models.NAME.slo)"
        return
    broken = [one for one in found.objectives if not one.is_kept]
    late = sum(one.late for one in found.objectives)
    if broken:
        names = ", ".join(f"{one.model} {one.metric}" for one in broken)
        yield f"Objectives BROKEN: {names}; {late:,} answers were late"
    else:
        yield f"Objectives kept: all {len(found.objectives)}; {late:,} answers were late"


def print_result(found: Result) -> None:
    """Print the result."""
    for text in headlines(found):
        console.print(text, markup=False, soft_wrap=True)
    console.print()
    print_table(_models(found))
    console.print()
    print_table(_workloads(found))
    console.print()
    print_table(_dollars(found))
    _print_events(found)


def _models(found: Result) -> Listing:
    table = Listing(
        "MODEL", figure("SENT"), figure("ANSWERED"), figure("FAILED"), figure("TTFT P95 MS"),
        figure("TARGET", spare=1), figure("LATE"), figure("TPOT P95 MS"),
        figure("TARGET", spare=1), figure("LATE"), prose("WHY FAILED", spare=2),
    )  # fmt: skip
    slos = {model.name: model.slo for model in found.rehearsal.platform.models}
    for name, one in found.by_model.items():
        ttft, tpot = one.ttft.quantile(PERCENTILE), one.tpot.quantile(PERCENTILE)
        slo = slos[name]
        why = ", ".join(f"{count:,} {reason}" for reason, count in one.reasons.most_common())
        table.add_row(
            name, f"{one.sent:,}", f"{one.answered:,}", f"{one.failed:,}",
            measured(None if ttft is None else 1000 * ttft, ",.0f"),
            measured(slo.ttft_p95_ms, ",.0f"), f"{one.late_ttft:,}",
            measured(None if tpot is None else 1000 * tpot, ",.1f"),
            measured(slo.tpot_p95_ms, ",.0f"), f"{one.late_tpot:,}", why or "-",
        )  # fmt: skip
    return table


def _workloads(found: Result) -> Listing:
    table = Listing(
        "REPLICAS OF", "REGION", figure("LEAST"), figure("MEAN"), figure("MOST"),
        figure("MISSING H"), prose("WHY MISSING", spare=1),
    )  # fmt: skip
    for one in found.rehearsal.workloads:
        ready = [each.ready for each in one.recorded] or [0]
        missing = sum(one.missing.values()) / 3600
        why = ", ".join(
            f"{s / 3600:.1f} h {reason}"
            for reason, s in sorted(one.missing.items(), key=lambda each: -each[1])
        )
        table.add_row(
            one.workload.name, one.workload.region, str(min(ready)),
            f"{sum(ready) / len(ready):.1f}", str(max(ready)), f"{missing:.1f}", why or "-",
        )  # fmt: skip
    return table


def _dollars(found: Result) -> Listing:
    table = Listing("DOLLARS BY", "", figure("USD"))
    spent = found.spent
    for title, lines in (
        ("model", spent.by_model),
        ("region", spent.by_region),
        ("way to buy", spent.by_provisioning),
        ("team", spent.by_team),
    ):
        for name, usd in sorted(lines.items(), key=lambda each: -each[1]):
            table.add_row(title, name, f"{usd:,.2f}")
    for name, hours in spent.without_price.items():
        table.add_row("no price", name, f"{hours:,.1f} h")
    return table


def _print_events(found: Result) -> None:
    log = found.rehearsal.log
    if not log.events:
        return
    console.print()
    for event in log.events[:_EVENTS]:
        where = f" {event.region}" if event.region else ""
        text = f"{clock(event.seconds)} {event.kind}{where}: {event.message}"
        console.print(text, markup=False, soft_wrap=True)
    more = len(log.events) - _EVENTS + log.dropped
    if more > 0:
        kept = "all" if not log.dropped else f"the first {len(log.events):,}"
        console.print(f"… and {more:,} more events (-o json has {kept})")
