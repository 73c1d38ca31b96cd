"""A plan as a table and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from gke_inference.catalogue.prices import Price
from gke_inference.sizing.architectures import Architecture, known
from planner.advice.batch import batch_costs
from planner.advice.kv_cache import KvAdvice
from planner.advice.roles import Advice, advise
from planner.amount import price_notes
from planner.choice.alternatives import alternatives
from planner.choice.coldstart import spare_replicas
from planner.choice.cost import amount_of, unverified_mark
from planner.choice.floors import floors
from planner.choice.image_plan import ImageChoice
from planner.choice.plan import TEMPORARY, Choice, Plan, ladder
from planner.choice.question import Estimate
from planner.choice.ties import tie
from scripts.terminal.console import console
from scripts.terminal.tables import Column, Listing, figure, print_table


def _money(value: float | None) -> str:
    return "?" if value is None else f"{value:,.2f}"


def _table(shown: list[Choice], batches: Sequence[Estimate | None] | None) -> Listing:
    table = Listing(
        figure("#"), "HARDWARE", "BITS", "BOUGHT", Column("REGION", spare=1), figure("REPLICAS"),
        figure("TTFT P95", spare=2), figure("TPOT P95", spare=2), figure("TOKENS/S", spare=3),
        figure("USED", spare=3), figure("$/H"), figure("$/M OUT"),
        *([] if batches is None else [figure("$/M BATCH")]), figure("START", spare=3),
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
            _money(None if hour is None else hour.value) + unverified_mark([one.price]),
            _ends(million) + unverified_mark([one.price]),
            *([] if batches is None else [_ends(batches[number - 1])]),
            f"{one.start.seconds:.0f} s",
        )
    return table


def _ends(value: Estimate | None) -> str:
    return f"{value.low:.2f}-{value.high:.2f}" if value else "?"


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
        "network": form.network,
        "faster_network": form.faster_network,
        "parallelism": form.parallelism,
        "bits": form.bits,
        "provisioning": one.provisioning,
        "region": one.region,
        "keeps_promise": one.keeps_promise,
        "nodes_stay": one.is_floor,
        "replicas": one.replicas,
        "replicas_at_the_slow_end": one.replicas_high,
        "ttft_p95_ms": asdict(one.ttft_p95_ms),
        "tpot_p95_ms": asdict(one.tpot_p95_ms),
        "tokens_per_second_of_a_replica": asdict(one.tokens_per_second),
        "utilization": one.utilisation,
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


def plan_as_data(answer: Plan, shown: list[Choice]) -> dict[str, Any]:
    """Return a plan as data, with the choices shown."""
    batches = batch_costs(answer.question, shown)
    return {
        "choices": [
            {**_choice_as_json(number, one), "usd_per_million_output_tokens_in_batch": _plain(each)}
            for number, (one, each) in enumerate(zip(shown, batches, strict=True), 1)
        ],
        "considered": len(answer.choices),
        "tie": list(found.numbers) if (found := tie(shown)) is not None else [],
        "disaggregation": _roles_as_json(advise(answer)),
        "alternatives": [asdict(one) for one in alternatives(answer)],
        "refused": [
            {"hardware": one.form.label, "bits": one.form.bits, "reason": one.reason}
            for one in answer.refused
        ],
    }


def _roles_as_json(advice: Advice | None) -> dict[str, Any] | None:
    """Return the advice on disaggregation; None if no hardware of the plan can."""
    if advice is None:
        return None
    roles = advice.roles
    return {
        "is_better": advice.is_better,
        "reason": advice.reason,
        "hardware": roles.choice.candidate.form.label,
        "parallelism": roles.choice.candidate.form.parallelism,
        "bits": roles.choice.candidate.form.bits,
        "provisioning": roles.choice.provisioning,
        "region": roles.choice.region,
        "prefill": {"replicas": roles.prefill, "at_the_slow_end": roles.prefill_high},
        "decode": {"replicas": roles.decode, "at_the_slow_end": roles.decode_high},
        "keeps_promise": roles.keeps_promise,
        "transfer_seconds": roles.transfer_seconds,
        "ttft_p95_ms": asdict(roles.ttft_p95_ms),
        "tpot_p95_ms": asdict(roles.tpot_p95_ms),
        "usd_per_hour": asdict(roles.usd_per_hour),
    }


def print_kv_advice(conversations: int, advice: KvAdvice) -> None:
    """Print the tiers for the KV cache of conversations."""
    console.print(
        f"KV cache of {conversations:,} conversations: {advice.conversation_gib:.2f} GiB each, "
        f"{advice.replica_gib:,.0f} GiB per replica, of which its accelerators keep "
        f"{min(advice.accelerator_gib, advice.replica_gib):,.0f}: {advice.reason}"
    )
    for tier in advice.tiers:
        of_use = "of use" if tier.problem is None else f"of no use: {tier.problem}"
        console.print(
            f"  {tier.name}: {tier.gib:,} GiB, up to {tier.bytes_per_second / 1e9:.1f} GB/s per "
            f"replica: {of_use}"
        )


def _print_roles(advice: Advice | None) -> None:
    if advice is None:
        return
    roles, form = advice.roles, advice.roles.choice.candidate.form
    first, further, hour = roles.ttft_p95_ms, roles.tpot_p95_ms, roles.usd_per_hour
    console.print(
        f"Disaggregate: {'yes' if advice.is_better else 'no'}: {advice.reason}. "
        f"{_span(roles.prefill, roles.prefill_high)} prefill and "
        f"{_span(roles.decode, roles.decode_high)} decode replicas of "
        f"{form.label} {form.parallelism} at {form.bits} bits, "
        f"{roles.choice.provisioning} in {roles.choice.region}: TTFT P95 {first.low:.0f}-"
        f"{first.high:.0f} ms, TPOT P95 {further.low:.0f}-{further.high:.0f} ms, "
        f"${hour.low:,.2f}-{hour.high:,.2f} an hour"
    )


def _span(least: int, most: int) -> str:
    return f"{least}" if least == most else f"{least}-{most}"


def print_plan(answer: Plan, shown: list[Choice], *, is_batch: bool = False) -> None:
    """Print the choices, and details of the best one.

    Args:
        answer: Plan.
        shown: Choices to print.
        is_batch: Whether to print the cost of batch traffic beside that of interactive traffic.
    """
    asked = answer.question
    console.print(
        f"{asked.model.name}: {asked.rate:g} requests/s, {asked.given} tokens in"
        f" ({asked.prefix_share:.0%} shared), {asked.made} out; p95 of the first token "
        f"{asked.ttft_p95_ms:g} ms, of each further token {asked.tpot_p95_ms:g} ms"
    )
    batches = batch_costs(asked, shown) if is_batch else None
    print_table(_table(shown, batches))
    prices = (
        amount_of(one.price, f"{one.candidate.form.label} {one.provisioning}", one.region)
        for one in shown
    )
    for line in price_notes(prices):
        console.print(f"[dim]{line}[/dim]")
    console.print(
        "Ranges are 80 % intervals (gke-inference plan --errors shows how often they hold)."
    )
    if is_batch:
        console.print("$/M BATCH: full replicas, without latency targets.")
    _print_tie(shown)
    _print_best(answer, shown[0])
    _print_faster_network(shown)
    _print_roles(advise(answer))
    for refused in answer.refused[:5]:
        form = refused.form
        console.print(f"[dim]not {form.label} at {form.bits} bits: {refused.reason}[/dim]")
    if len(answer.refused) > 5:
        console.print(f"[dim]and {len(answer.refused) - 5} more do not fit[/dim]")
    for one in alternatives(answer):
        console.print(f"Consider {one.name}: {one.reason} [dim]({one.source})[/dim]")


def _print_faster_network(shown: list[Choice]) -> None:
    """Print how to get a faster network between hosts, for the first choice that could have it."""
    for number, one in enumerate(shown, 1):
        faster = one.candidate.form.faster_network
        if faster is not None:
            console.print(
                f"{number}: estimated for network tcp; {faster} is faster, and needs "
                "capacity.NAME.node_pools and regions.NAME.ranges.accelerators in the stack "
                "(docs/gpudirect.md)"
            )
            return


def _print_tie(shown: list[Choice]) -> None:
    """Print which choices cost the same, as far as anyone can know, and what decides."""
    found = tie(shown)
    if found is None:
        return
    numbers = ", ".join(map(str, found.numbers))
    if not found.rival:
        said = "all on one accelerator: take the fastest"
    else:
        said = (
            f"ten minutes of `vllm bench serve` on 1 and {found.rival} decide "
            f"(--measured, docs/planner-method.md)"
        )
        if found.cheaper:
            said += f"; so does a price of {found.rival} that is {found.cheaper:.0%} lower"
    console.print(f"{numbers} are a tie, as their intervals of cost overlap: {said}")


def _print_floor(best: Choice, rungs: list[Choice]) -> None:
    """Print why the first choice is first, and what is cheaper above it."""
    if not best.is_floor or best.price is None:
        return
    above = [each for each in rungs if each.price is not None and not each.is_floor]
    if not above:
        return
    least = min(above, key=lambda each: each.price.usd_per_hour if each.price else 0.0)
    each = least.price.usd_per_hour if least.price else 0.0
    console.print(
        f"1: {best.provisioning} nodes stay, so they are the floor; replicas above it can be "
        f"{least.provisioning} at ${each:,.2f} instead of ${best.price.usd_per_hour:,.2f} an hour"
    )


def _print_other_floors(answer: Plan) -> None:
    """Print the floor of each region, and what costs less than the first one but is no floor."""
    found = floors(answer)
    if len(found.regions) > 1:
        each = (f"{region} {_priced(one) if one else 'none'}" for region, one in found.regions)
        console.print(f"floors by region, $/h: {', '.join(each)}")
    for one in found.temporary:
        how = "its price on demand is not known" if one.is_sold else "it is not sold on demand"
        console.print(
            f"no floor: {_priced(one.choice)} $/h; {one.choice.provisioning} nodes end, and {how}"
        )


def _priced(one: Choice) -> str:
    replicas = f"{one.replicas} of " if one.replicas > 1 else ""
    usd = one.usd_per_hour.value if one.usd_per_hour else None
    return f"{replicas}{one.candidate.form.label} {_money(usd)}{unverified_mark([one.price])}"


def _print_best(answer: Plan, best: Choice) -> None:
    console.print(f"1: {'; '.join(best.notes)}")
    ways = ladder(best, answer.choices)
    _print_floor(best, ways)
    _print_other_floors(answer)
    rungs = [
        f"{each.provisioning} {_money(each.usd_per_hour.value if each.usd_per_hour else None)}"
        for each in ways
    ]
    console.print(f"1: rungs in {best.region}, $/h: {', then '.join(rungs)}")
    spare = spare_replicas(best.replicas, best.start)
    console.print(
        f"1: scale {best.start.lead_seconds:.0f} s ahead; {spare} spare replica(s) cover "
        "traffic that doubles in ten minutes"
    )


def images_as_data(choices: Sequence[ImageChoice]) -> list[dict[str, Any]]:
    """Return the cost of images or videos on each accelerator as data."""
    return [asdict(one) for one in choices]


def print_images(
    model: Architecture, rate: float, steps: int, choices: Sequence[ImageChoice], rows: int
) -> None:
    """Print the cost of images or videos on each accelerator, for the first rows."""
    width, height, frames = model.output
    kind = "video" if model.is_video else "image"
    size = f"{width}x{height}" + (f" and {frames} frames" if model.is_video else "")
    table = Listing(
        "ACCELERATOR", figure(f"S/{kind.upper()}"), figure("CHIPS", spare=1), "BOUGHT", "REGION",
        figure("$/H"), figure(f"$/1000 {kind.upper()}S"), "SERVED HERE",
    )  # fmt: skip
    for one in choices[:rows]:
        table.add_row(
            one.accelerator, f"{one.seconds_low:.2f}-{one.seconds_high:.2f}", str(one.chips),
            one.provisioning, one.region, _money(one.usd_per_hour),
            f"{one.usd_per_thousand_low:.2f}-{one.usd_per_thousand_high:.2f}",
            "yes" if one.is_served else "no",
        )  # fmt: skip
    console.print(f"{model.name}: {rate:g} {kind}s/s of {size} in {steps} steps")
    print_table(table)
    if not model.pipeline:
        console.print(
            f"No engine of this project serves {model.name}: the image server generates with "
            f"{', '.join(one.name for one in known() if one.pipeline)} alone. These prices are for "
            "comparison, with a server of your own."
        )
    elif not all(one.is_served for one in choices[:rows]):
        console.print(
            "SERVED HERE: no where the image server has no pipeline for the hardware; these prices "
            "are for comparison."
        )
    _print_image_floor(choices)


def _print_image_floor(choices: Sequence[ImageChoice]) -> None:
    """Print the cheapest choice whose nodes stay, unless it is the first one."""
    served = [one for one in choices if one.is_served]
    floor = next((one for one in served if one.provisioning not in TEMPORARY), None)
    if floor is not None and choices[0].provisioning in TEMPORARY:
        console.print(
            f"{choices[0].provisioning} nodes end: the floor is {floor.accelerator} "
            f"{floor.provisioning} in {floor.region}, {_money(floor.usd_per_hour)} $/h"
        )
