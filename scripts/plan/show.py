"""A plan as a table and as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from gke_inference.catalogue.prices import Price
from gke_inference.sizing.architectures import Architecture
from planner.amount import amount_of, missing_lines
from planner.choice.alternatives import elsewhere
from planner.choice.coldstart import spare_replicas
from planner.choice.image_plan import PictureChoice
from planner.choice.plan import Choice, Estimate, Plan, ladder
from scripts.terminal.console import console
from scripts.terminal.tables import Column, Listing, figure, print_table


def _money(value: float | None) -> str:
    return "?" if value is None else f"{value:,.2f}"


def _table(shown: list[Choice]) -> Listing:
    table = Listing(
        figure("#"), "HARDWARE", "BITS", "BOUGHT", Column("REGION", spare=1), figure("REPLICAS"),
        figure("TTFT P95", spare=2), figure("TPOT P95", spare=2), figure("TOKENS/S", spare=3),
        figure("USED", spare=3), figure("$/H"), figure("$/M OUT"), figure("START", spare=3),
    )  # fmt: skip
    for number, one in enumerate(shown, 1):
        form, hour, million = one.candidate.form, one.usd_per_hour, one.usd_per_million
        table.add_row(
            str(number),
            f"{form.label} {form.parallelism}" + ("" if one.keeps_promise else " (too slow)"),
            str(form.bits),
            one.provisioning,
            one.region,
            f"{one.replicas}"
            + (f"-{one.replicas_high}" if one.replicas_high > one.replicas else ""),
            f"{one.ttft_p95_ms.low:.0f}-{one.ttft_p95_ms.high:.0f} ms",
            f"{one.tpot_p95_ms.low:.0f}-{one.tpot_p95_ms.high:.0f} ms",
            f"{one.tokens_per_second.low:,.0f}-{one.tokens_per_second.high:,.0f}",
            f"{one.utilisation:.0%}",
            _money(None if hour is None else hour.value),
            f"{million.low:.2f}-{million.high:.2f}" if million else "?",
            f"{one.start.seconds:.0f} s",
        )
    return table


def _plain(value: Estimate | Price | None) -> dict[str, Any] | None:
    return None if value is None else asdict(value)


def _choice_as_json(number: int, one: Choice) -> dict[str, Any]:
    form = one.candidate.form
    return {
        "rank": number,
        "accelerator": form.word,
        "machine_type": form.machine_type,
        "topology": form.topology,
        "count": None if form.topology else form.count,
        "hosts": form.hosts,
        "parallelism": form.parallelism,
        "bits": form.bits,
        "provisioning": one.provisioning,
        "region": one.region,
        "keeps_promise": one.keeps_promise,
        "replicas": one.replicas,
        "replicas_at_the_slow_end": one.replicas_high,
        "ttft_p95_ms": asdict(one.ttft_p95_ms),
        "tpot_p95_ms": asdict(one.tpot_p95_ms),
        "tokens_per_second_of_a_replica": asdict(one.tokens_per_second),
        "utilisation": one.utilisation,
        "price": _plain(one.price),
        "usd_per_hour": _plain(one.usd_per_hour),
        "usd_per_million_output_tokens": _plain(one.usd_per_million),
        "usd_per_million_tokens": one.usd_per_million_tokens,
        "cold_start_seconds": {
            "value": one.start.seconds,
            "low": one.start.low,
            "high": one.start.high,
        },
        "spare_replicas": spare_replicas(one.replicas, one.start),
        "notes": list(one.notes),
    }


def plan_as_json(answer: Plan, shown: list[Choice]) -> str:
    """Return a plan as JSON, with the choices shown."""
    facts = {
        "choices": [_choice_as_json(number, one) for number, one in enumerate(shown, 1)],
        "considered": len(answer.choices),
        "elsewhere": [asdict(one) for one in elsewhere(answer)],
        "refused": [
            {"hardware": one.form.label, "bits": one.form.bits, "reason": one.reason}
            for one in answer.refused
        ],
    }
    return json.dumps(facts, indent=1)


def print_plan(answer: Plan, shown: list[Choice]) -> None:
    """Print the choices, and details of the best one."""
    asked = answer.question
    console.print(
        f"{asked.model.name}: {asked.rate:g} requests/s, {asked.given} tokens in"
        f" ({asked.prefix_share:.0%} shared), {asked.made} out; p95 of the first token "
        f"{asked.ttft_p95_ms:g} ms, of each further token {asked.tpot_p95_ms:g} ms"
    )
    print_table(_table(shown))
    lacking = (
        amount_of(one.price, f"{one.candidate.form.label} {one.provisioning}", one.region).missing
        for one in shown
    )
    for line in missing_lines(missing for every in lacking for missing in every):
        console.print(f"[dim]{line}[/dim]")
    console.print(
        "Ranges are 80 % intervals (gke-inference plan --errors shows how often they hold)."
    )
    _print_best(answer, shown[0])
    for refused in answer.refused[:5]:
        form = refused.form
        console.print(f"[dim]not {form.label} at {form.bits} bits: {refused.reason}[/dim]")
    if len(answer.refused) > 5:
        console.print(f"[dim]and {len(answer.refused) - 5} more do not fit[/dim]")
    for one in elsewhere(answer):
        console.print(f"Consider {one.name}: {one.reason} [dim]({one.source})[/dim]")


def _print_best(answer: Plan, best: Choice) -> None:
    console.print(f"1: {'; '.join(best.notes)}")
    rungs = [
        f"{each.provisioning} {_money(each.usd_per_hour.value if each.usd_per_hour else None)}"
        for each in ladder(best, answer.choices)
    ]
    console.print(f"1: rungs in {best.region}, $/h: {', then '.join(rungs)}")
    spare = spare_replicas(best.replicas, best.start)
    console.print(
        f"1: scale {best.start.lead_seconds:.0f} s ahead; {spare} spare replica(s) cover "
        "traffic that doubles in ten minutes"
    )


def images_as_json(choices: Sequence[PictureChoice]) -> str:
    """Return the cost of images on each accelerator as JSON."""
    return json.dumps([asdict(one) for one in choices], indent=1)


def print_images(
    model: Architecture, rate: float, steps: int, choices: Sequence[PictureChoice]
) -> None:
    """Print the cost of images on each accelerator."""
    table = Listing(
        "ACCELERATOR", figure("S/IMAGE"), figure("CHIPS", spare=1), "BOUGHT", "REGION",
        figure("$/H"), figure("$/1000 IMAGES"),
    )  # fmt: skip
    for one in choices:
        table.add_row(
            one.accelerator, f"{one.seconds_low:.2f}-{one.seconds_high:.2f}", str(one.chips),
            one.provisioning, one.region, _money(one.usd_per_hour),
            f"{one.usd_per_thousand_low:.2f}-{one.usd_per_thousand_high:.2f}",
        )  # fmt: skip
    console.print(f"{model.name}: {rate:g} images/s of 1024x1024 in {steps} steps")
    print_table(table)
