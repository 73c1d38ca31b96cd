"""`gke-inference plan`: what to run a model on, before anything is paid for."""

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from infra.edit import Placement, write_model
from infra.load import read
from infra.problems import StackError
from planner.architectures import Architecture, find, known, of_config
from planner.chart import draw
from planner.coldstart import spare_replicas
from planner.elsewhere import elsewhere
from planner.errors import LEFT_OUT, Group, contests, families, left_out, of_new
from planner.explain import explain as explained
from planner.pictures import picture_choices
from planner.plan import Choice, Plan, Question, best_forms, ladder
from planner.plan import plan as ranked
from planner.points import points_of
from scripts.console import CommandError, console

_ROWS = 12


def _architecture(name: str, parameters: float | None) -> Architecture:
    """Return a model by name, or by the path of its config.json.

    Raises:
        CommandError: nothing is known of it.
    """
    path = Path(name)
    if path.suffix == ".json" or path.is_dir():
        try:
            return of_config(path / "config.json" if path.is_dir() else path, parameters)
        except ValueError as error:
            raise CommandError(str(error)) from None
    found = find(name)
    if found is None:
        names = ", ".join(sorted(model.name for model in known()))
        raise CommandError(
            f"MODEL: must be the path of a config.json or one of {names}, got {name!r}"
        )
    return found


def _money(value: float | None) -> str:
    return "?" if value is None else f"{value:,.2f}"


def _table(shown: list[Choice]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = ("#", "HARDWARE", "BITS", "BOUGHT", "REGION", "REPLICAS", "TTFT P95", "TPOT P95",
               "TOKENS/S", "USED", "$/H", "$/M OUT", "START")  # fmt: skip
    for column in columns:
        table.add_column(column, justify="left" if column in columns[1:5] else "right")
    for number, one in enumerate(shown, 1):
        form, hour, million = one.candidate.form, one.usd_per_hour, one.usd_per_million
        bound = "≥ " if one.price is not None and one.price.is_lower_bound else ""
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
            bound + _money(hour.value if hour else None),
            f"{million.low:.2f}-{million.high:.2f}" if million else "?",
            f"{one.start.seconds:.0f} s",
        )
    return table


def _as_json(number: int, one: Choice) -> dict[str, Any]:
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
        "price": asdict(one.price) if one.price else None,
        "usd_per_hour": asdict(one.usd_per_hour) if one.usd_per_hour else None,
        "usd_per_million_output_tokens": asdict(one.usd_per_million)
        if one.usd_per_million
        else None,
        "usd_per_million_tokens": one.usd_per_million_tokens,
        "cold_start_seconds": {
            "value": one.start.seconds,
            "low": one.start.low,
            "high": one.start.high,
        },
        "spare_replicas": spare_replicas(one.replicas, one.start),
        "notes": list(one.notes),
    }


def _print(answer: Plan, shown: list[Choice]) -> None:
    asked = answer.question
    console.print(
        f"{asked.model.name}: {asked.rate:g} requests/s, {asked.given} tokens in"
        f" ({asked.prefix_share:.0%} shared), {asked.made} out; first token in "
        f"{asked.ttft_p95_ms:g} ms, then {asked.tpot_p95_ms:g} ms a token, 95th percentiles"
    )
    console.print(_table(shown))
    console.print("Ranges hold four of five such estimates (gke-inference plan --errors).")
    best = shown[0]
    console.print(f"1: {'; '.join(best.notes)}")
    rungs = [
        f"{each.provisioning} {_money(each.usd_per_hour.value if each.usd_per_hour else None)}"
        for each in ladder(best, answer.choices)
    ]
    console.print(f"1: rungs in {best.region}, $/h: {', then '.join(rungs)}")
    spare = spare_replicas(best.replicas, best.start)
    console.print(
        f"1: ask {best.start.lead_seconds:.0f} s ahead; {spare} spare replica(s) meet traffic that "
        "doubles in ten minutes"
    )
    for refused in answer.refused[:5]:
        form = refused.form
        console.print(f"[dim]not {form.label} at {form.bits} bit: {refused.reason}[/dim]")
    if len(answer.refused) > 5:
        console.print(f"[dim]and {len(answer.refused) - 5} more forms do not hold it[/dim]")
    for one in elsewhere(answer):
        console.print(f"Consider {one.name}: {one.reason} [dim]({one.source})[/dim]")


def _print_group(title: str, group: Group) -> None:
    console.print(
        f"{title:<42} {len(group.compared):>4} points  median {group.median:>4.0%}  nine in ten "
        f"{group.nine_in_ten:>4.0%}  in their 80 % interval {group.inside:>4.0%}"
    )


def _errors(file: Path | None) -> None:
    """Print how wrong estimates are, on points that were left out or on those of a file."""
    if file is not None:
        try:
            with file.open(newline="", encoding="utf-8") as stream:
                found = points_of(list(csv.DictReader(stream)))
        except (OSError, ValueError) as error:
            raise CommandError(f"{file}: must be a table of points: {error}") from None
        except KeyError as error:
            raise CommandError(f"{file}: must have a column {error.args[0]}") from None
        if not found:
            raise CommandError(f"{file}: must have rows with lengths and a known model, got none")
        _print_group(str(file), of_new(found))
        return
    for by in LEFT_OUT:
        _print_group(f"left out by {by}", left_out(by))
    console.print("\nBy family, each point left out:")
    for group in families():
        _print_group(group.name, group)
    choices = contests("model")
    first, found = (sum(getattr(one, name) for one in choices) for name in ("is_first", "is_found"))
    console.print(
        f"\nHardware chosen without having seen the model: best first {first} of {len(choices)}, "
        f"among the first two {found} of {len(choices)}"
    )


def _regions(asked: list[str] | None, stack: str | None) -> tuple[str, ...]:
    """Return the regions to look in: those asked for, or of the stack that is written."""
    if asked or stack is None:
        return tuple(asked or ())
    try:
        return tuple(read(stack).regions)
    except StackError as error:
        raise CommandError(str(error)) from None


def _write(
    stack: str, name: str | None, question: Question, one: Choice, choices: Sequence[Choice]
) -> None:
    form = one.candidate.form
    if one.provisioning == "reservation":
        raise CommandError("--write: must be bought without a reservation, whose name is not known")
    if form.bits < 8 < question.model.bits:
        raise CommandError(
            f"--write: must be of 8 bits or more, as weights of {form.bits} are another checkpoint"
        )
    model = name or question.model.name
    slo = (int(question.ttft_p95_ms), int(question.tpot_p95_ms))
    placement = Placement(
        accelerator=form.word,
        provisioning=tuple(each.provisioning for each in ladder(one, choices)),
        topology=form.topology,
        count=None if form.topology else form.count,
        hosts=form.hosts if form.hosts > 1 and not form.topology else None,
        region=one.region,
        tensor_parallel=form.tensor * form.chip.devices_per_chip if form.copies > 1 else None,
        parameters_billion=one.candidate.shape.parameters_billion,
        bits=form.bits,
        checkpoint_bits=question.model.bits,
        context=question.longest,
        replicas=one.replicas,
        most_replicas=max(one.replicas_high, 2 * one.replicas),
        slo_ms=slo,
    )
    try:
        file = write_model(stack, model, placement)
    except StackError as error:
        raise CommandError(f"{stack} is left as it was: {error}") from None
    console.print(f"{file}: model {model} on capacity {model}-plan written")


def plan(
    model: Annotated[
        str, typer.Argument(help="Name of a model, or the path of its config.json.")
    ] = "",
    rate: Annotated[float, typer.Option(help="Requests a second at the busiest time.")] = 1.0,
    given: Annotated[int, typer.Option("--input", help="Tokens of a prompt.")] = 1000,
    made: Annotated[int, typer.Option("--output", help="Tokens of an answer.")] = 200,
    prefix_share: Annotated[float, typer.Option(help="Part of prompts that is common.")] = 0.0,
    ttft_p95: Annotated[float, typer.Option(help="ms to the first token, 95th pct.")] = 1000.0,
    tpot_p95: Annotated[float, typer.Option(help="ms between tokens, 95th percentile.")] = 50.0,
    context: Annotated[int, typer.Option(help="Longest sequence; 0: 1.5 x the lengths.")] = 0,
    utilisation: Annotated[float, typer.Option(help="Part of capacity to use at most.")] = 0.7,
    parameters: Annotated[float | None, typer.Option(help="Billions, for a config.json.")] = None,
    region: Annotated[list[str] | None, typer.Option(help="Only these regions.")] = None,
    accelerator: Annotated[list[str] | None, typer.Option(help="Only these.")] = None,
    provisioning: Annotated[list[str] | None, typer.Option(help="Only these ways.")] = None,
    bits: Annotated[list[int] | None, typer.Option(help="Only these precisions.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Choices to show.")] = _ROWS,
    every: Annotated[bool, typer.Option("--every", help="Every region and way to buy.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="All of it as JSON.")] = False,
    explain: Annotated[bool, typer.Option(help="The arithmetic of the chosen one.")] = False,
    pick: Annotated[int, typer.Option(min=1, help="Which one to explain or write.")] = 1,
    chart: Annotated[Path | None, typer.Option(help="Draw cost against latency (SVG).")] = None,
    write: Annotated[str | None, typer.Option(help="Put it into this stack.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the model in the stack.")] = None,
    errors: Annotated[bool, typer.Option("--errors", help="How wrong estimates are.")] = False,
    against: Annotated[Path | None, typer.Option(help="--errors: on this CSV's points.")] = None,
) -> None:
    """Rank what could serve a model: hardware, price, latency, each with its uncertainty."""
    if errors or against is not None:
        _errors(against)
        return
    if not model:
        raise CommandError("MODEL: is required: a name, or the path of a config.json")
    found = _architecture(model, parameters)
    if as_json and (explain or chart is not None):
        raise CommandError("--json: must stand without --explain and --chart")
    if found.kind == "diffusion":
        _refuse_for_images(
            found,
            {"--chart": chart, "--explain": explain, "--region": region, "--write": write},
        )
        _print_images(found, rate, as_json)
        return
    try:
        question = Question(
            found, rate, given, made, ttft_p95, tpot_p95, prefix_share,
            _regions(region, write), tuple(provisioning or ()), tuple(accelerator or ()),
            tuple(bits or ()), utilisation, context,
        )  # fmt: skip
        answer = ranked(question)
    except ValueError as error:
        raise CommandError(str(error)) from None
    shown = list(answer.choices) if every else best_forms(answer.choices)
    _check_shown(shown, pick, region, provisioning)
    if as_json:
        facts = {
            "choices": [_as_json(number, one) for number, one in enumerate(shown[:rows], 1)],
            "considered": len(answer.choices),
            "elsewhere": [asdict(one) for one in elsewhere(answer)],
            "refused": [
                {"hardware": one.form.label, "bits": one.form.bits, "reason": one.reason}
                for one in answer.refused
            ],
        }
        print(json.dumps(facts, indent=1))
    else:
        _print(answer, shown[:rows])
    if explain:
        console.print(f"\n[bold]{pick}[/bold]")
        for line in explained(question, shown[pick - 1]):
            console.print(f"  {line}", markup=False)
    if chart is not None:
        console.print(f"{draw(answer, chart)} forms drawn in {chart}")
    if write is not None:
        _write(write, name, question, shown[pick - 1], answer.choices)


def _check_shown(
    shown: list[Choice], pick: int, region: list[str] | None, provisioning: list[str] | None
) -> None:
    if not shown:
        where = ", ".join(region or ()) or "the regions of the stack"
        how = ", ".join(provisioning or ()) or "any option"
        raise CommandError(
            f"no accelerator that holds the model is offered in {where} as {how}: "
            "change --region, --provisioning or --accelerator"
        )
    if pick > len(shown):
        raise CommandError(f"--pick: must be 1 to {len(shown)}, got {pick}")


def _refuse_for_images(model: Architecture, options: dict[str, object]) -> None:
    """Refuse options that the prices of pictures do not look at."""
    for option, value in options.items():
        if value:
            raise CommandError(f"{option}: must be left out for a model that draws ({model.name})")


def _print_images(model: Architecture, rate: float, as_json: bool) -> None:
    """Print what images cost on each accelerator."""
    try:
        choices = picture_choices(model, rate)
    except (OverflowError, ValueError) as error:
        raise CommandError(f"--rate: {error}") from None
    if as_json:
        print(json.dumps([asdict(one) for one in choices], indent=1))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("ACCELERATOR", "S/IMAGE", "CHIPS", "BOUGHT", "REGION", "$/H", "$/1000 IMAGES"):
        table.add_column(column)
    for one in choices[:_ROWS]:
        table.add_row(
            one.accelerator, f"{one.seconds_low:.2f}-{one.seconds_high:.2f}", str(one.chips),
            one.provisioning, one.region, _money(one.usd_per_hour),
            f"{one.usd_per_thousand_low:.2f}-{one.usd_per_thousand_high:.2f}",
        )  # fmt: skip
    console.print(f"{model.name}: {rate:g} images/s of 1024x1024 in {model.steps} steps")
    console.print(table)
