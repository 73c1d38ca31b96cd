"""`gke-inference plan`: compares the hardware for a model before you pay for it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import one_of
from gke_inference.sizing.architectures import Architecture, find, known, of_config
from gke_inference.sizing.shapes import is_embedding
from infra.reading.load import stack_names
from planner.advice.kv_cache import kv_advice
from planner.choice.chart import draw
from planner.choice.explain import explain as explained
from planner.choice.plan import Choice, Plan, best_forms
from planner.choice.plan import plan as ranked
from planner.choice.question import Question
from planner.speed.measured import include
from scripts.plan.claims import print_claims
from scripts.plan.errors import measured_rows, print_errors
from scripts.plan.filters import PLAN_OPTIONS, Filters, guess_of, no_hardware
from scripts.plan.images import image_tokens, print_image_plan
from scripts.plan.modes import Mode, given_options, refuse_unused
from scripts.plan.show import plan_as_data, print_kv_advice, print_plan
from scripts.plan.stack import Wanted, plan_stack
from scripts.plan.write import check_name, write_choice
from scripts.shared.calibration_files import CalibrationOption, include_calibration
from scripts.shared.quota_limits import Against
from scripts.terminal.console import CommandError, console
from scripts.terminal.console import errors as error_output
from scripts.terminal.options import (
    check_one,
    check_positive,
    option_of,
    stack_of,
)
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.output_files import check_output, write_output
from twin.drawings.svg import darkened

_ROWS = 12


def _architecture(name: str, parameters: float | None) -> Architecture:
    """Return a model by name, or by the path of its config.json.

    Raises:
        CommandError: The model is unknown.
    """
    path = Path(name)
    if path.suffix == ".json" or path.is_dir():
        try:
            return of_config(path / "config.json" if path.is_dir() else path, parameters)
        except ValueError as error:
            raise CommandError(str(error)) from None
    if parameters is not None:
        raise CommandError(
            "--parameters: must be omitted unless MODEL is the path of a config.json"
        )
    found = find(name)
    if found is None:
        error = one_of("MODEL", name, sorted(model.name for model in known()))
        raise CommandError(str(error).replace("must be", "must be the path of a config.json or", 1))
    return found


def _regions(asked: tuple[str, ...], stack: str | None) -> tuple[str, ...]:
    """Return the regions to plan for: those given, or those of the stack to write."""
    if asked or stack is None:
        return asked
    return tuple(stack_of(stack, "--write").regions)


@dataclass(frozen=True)
class _Shown:
    """Output options of the plan."""

    rows: int
    every: bool
    output: Output
    explain: bool
    pick: int
    chart: Path | None
    write: str | None
    name: str | None
    batch: bool
    conversations: int


def plan(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="Name of a model, or path of its config.json.")
    ] = "",
    rate: Annotated[float, typer.Option(help="Peak requests per second.")] = 1.0,
    given: Annotated[int, typer.Option("--input", help="Tokens per prompt.")] = 1000,
    made: Annotated[int, typer.Option("--output", help="Tokens per answer.")] = 200,
    prefix_share: Annotated[
        float, typer.Option(help="Share of each prompt that is a common prefix.")
    ] = 0.0,
    ttft_p95: Annotated[
        float, typer.Option(help="95th-percentile time to first token, in milliseconds.")
    ] = 1000.0,
    tpot_p95: Annotated[
        float, typer.Option(help="95th-percentile time per output token, in milliseconds.")
    ] = 50.0,
    context: Annotated[
        int, typer.Option(help="Longest sequence, in tokens; 0: 1.5 times prompt and answer.")
    ] = 0,
    utilisation: Annotated[
        float, typer.Option("--utilization", help="Maximum utilization of a replica.")
    ] = 0.7,
    parameters: Annotated[
        float | None, typer.Option(help="Billions of parameters; only with a config.json.")
    ] = None,
    region: Annotated[
        list[str] | None, typer.Option(help="Only this region; repeat for more.")
    ] = None,
    accelerator: Annotated[
        list[str] | None, typer.Option(help="Only this accelerator; repeat for more.")
    ] = None,
    provisioning: Annotated[
        list[str] | None,
        typer.Option(help="Only this provisioning, such as spot; repeat for more."),
    ] = None,
    adapters: Annotated[
        int, typer.Option(help="Number of different LoRA adapters in one batch.")
    ] = 0,
    images: Annotated[
        int, typer.Option(min=0, help="Images per prompt; their tokens are added to --input.")
    ] = 0,
    image_size: Annotated[
        str, typer.Option(help="Width and height of an image, in pixels.")
    ] = "1024x1024",
    kv_bits: Annotated[int, typer.Option(help="Bits of a number in the KV cache: 8 or 16.")] = 16,
    speculative: Annotated[
        str,
        typer.Option(
            help="Speculative decoding, METHOD:TOKENS: eagle3, mtp or ngram, with the draft tokens"
            " of a step."
        ),
    ] = "",
    conversations: Annotated[
        int,
        typer.Option(min=0, help="Conversations whose KV cache should stay available."),
    ] = 0,
    bits: Annotated[
        list[int] | None, typer.Option(help="Only weights of this many bits; repeat for more.")
    ] = None,
    rows: Annotated[int, typer.Option(min=1, help="Number of choices to show.")] = _ROWS,
    every: Annotated[
        bool, typer.Option("--every", help="Show every region and provisioning.")
    ] = False,
    batch: Annotated[
        bool, typer.Option("--batch", help="Also show the cost per million tokens of batches.")
    ] = False,
    output: OutputOption = Output.TABLE,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the calculation of the picked choice.")
    ] = False,
    pick: Annotated[int, typer.Option(min=1, help="Number of the choice to explain or write.")] = 1,
    chart: Annotated[
        Path | None, typer.Option(help="Plot cost against latency to this SVG file.")
    ] = None,
    write: Annotated[
        str | None, typer.Option(help="Write the picked choice to this stack.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the model in the stack; only with --write.")
    ] = None,
    stack: Annotated[
        str | None,
        typer.Option(help="Plan all models of this stack together, instead of MODEL."),
    ] = None,
    load: Annotated[
        list[str] | None,
        typer.Option(
            help="Traffic of a model of the stack, MODEL=RATE or MODEL=RATE,INPUT,OUTPUT; repeat"
            " for more. Default: what its maximum replicas serve."
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(help="Dollars per month for the accelerators of the stack."),
    ] = None,
    limits: Annotated[
        Against, typer.Option(help="Source of the quota limits for --stack.")
    ] = Against.TWIN,
    errors: Annotated[
        bool, typer.Option("--errors", help="Show the errors of the estimates instead of a plan.")
    ] = False,
    published: Annotated[
        bool,
        typer.Option(
            "--claims", help="Compare published claims with our figures, instead of planning."
        ),
    ] = False,
    against: Annotated[
        Path | None,
        typer.Option(help="Show the errors on the measurements in this file, instead of a plan."),
    ] = None,
    measured: Annotated[
        list[Path] | None,
        typer.Option(
            help="Also learn from your measurements in this file: CSV, or JSON of"
            " `vllm bench serve`; repeat for more."
        ),
    ] = None,
    calibration: CalibrationOption = None,
    invoked: typer.Context = None,  # pyrefly: ignore[bad-function-definition] - Typer sets it
) -> None:
    """Rank the hardware for a model by price and latency, with uncertainty ranges."""
    options = given_options(invoked)
    if published:
        refuse_unused(Mode.CLAIMS, options)
        print_claims(output)
        return
    if errors or against is not None:
        refuse_unused(Mode.ERRORS, options)
        print_errors(against)
        return
    for file in measured or ():
        include(measured_rows(file, "--measured"))
    include_calibration(calibration, stack or write)
    if stack is not None:
        refuse_unused(Mode.STACK, options)
        if write not in (None, stack):
            raise CommandError(f"--write: must be {stack}, the stack of --stack, got {write!r}")
        wanted = Wanted(stack, tuple(load or ()), budget, limits, given, made, utilisation)
        plan_stack(wanted, is_written=write is not None, output=output)
        return
    refuse_unused(Mode.TEXT, options)
    if not model:
        raise CommandError("MODEL: is required (a name, or the path of a config.json)")
    if parameters is not None:
        check_positive("--parameters", parameters)
    if write is not None:
        check_one("--write", write, stack_names())
        check_name(name)
        if speculative:
            raise CommandError(
                "--speculative: must be omitted with --write, which does not write it"
            )
    check_output("--chart", chart)
    filters = Filters.of(region, provisioning, accelerator)
    found = _architecture(model, parameters)
    if found.is_diffusion:
        refuse_unused(Mode.IMAGES, options)
        print_image_plan(found, rate, filters, rows, output)
        return
    asked = {
        "rate": rate, "given": given + image_tokens(found, images, image_size),
        "made": made, "ttft_p95_ms": ttft_p95,
        "tpot_p95_ms": tpot_p95, "prefix_share": prefix_share, "utilisation": utilisation,
        "context": context, "bits": tuple(bits or ()), "adapters": adapters, "kv_bits": kv_bits,
        "speculative": guess_of(speculative),
    }  # fmt: skip
    question = _question(found, asked, filters, write)
    if is_embedding(model) and not output.is_data:
        console.print(
            f"{model} makes embeddings, which this plan does not rank: it is of {found.name} with "
            f"{made} tokens of text per answer. `gke-inference cost` has the price of a million "
            "prompt tokens (docs/unit-cost.md)"
        )
    _show(
        question,
        _Shown(rows, every, output, explain, pick, chart, write, name, batch, conversations),
    )


def _question(
    model: Architecture,
    asked: dict[str, Any],
    filters: Filters,
    stack: str | None,
) -> Question:
    if 0 < model.context < asked["context"]:
        limit = f"at most {model.context}, the limit of {model.name}"
        raise CommandError(f"--context: must be {limit}, got {asked['context']}")
    try:
        return Question(
            model=model,
            regions=_regions(filters.regions, stack),
            provisioning=filters.provisioning,
            accelerators=filters.accelerators,
            **asked,
        )
    except InputError as error:
        raise CommandError(option_of(error, PLAN_OPTIONS)) from None


def _show(question: Question, how: _Shown) -> None:
    """Print the plan, then explain, plot or write it as asked."""
    try:
        answer = ranked(question)
    except InputError as error:
        raise CommandError(option_of(error, PLAN_OPTIONS)) from None
    shown = list(answer.choices) if how.every else best_forms(answer.choices)
    _check_shown(question, shown, how.pick)
    if how.output.is_data:
        print_data(plan_as_data(answer, shown[: how.rows]), how.output)
    else:
        print_plan(answer, shown[: how.rows], is_batch=how.batch)
    one = shown[how.pick - 1]
    if how.conversations and not how.output.is_data:
        advice = kv_advice(question, one, how.conversations)
        print_kv_advice(how.conversations, advice)
    if how.explain:
        console.print(f"\n[bold]{how.pick}[/bold]")
        for line in explained(question, one):
            console.print(f"  {line}", markup=False)
    if how.chart is not None:
        write_output("--chart", how.chart, lambda file: _draw(answer, file))
    if how.write is not None:
        said = error_output if how.output.is_data else console
        write_choice(how.write, how.name, question, one, answer.choices, said)


def _draw(answer: Plan, file: Path) -> None:
    try:
        shown = draw(answer, file)
    except InputError as error:
        raise CommandError(option_of(error, PLAN_OPTIONS)) from None
    file.write_text(darkened(file.read_text(encoding="utf-8")), encoding="utf-8")
    console.print(f"wrote {file} with {shown} choices", markup=False, soft_wrap=True)


def _check_shown(question: Question, shown: list[Choice], pick: int) -> None:
    if not shown:
        raise CommandError(no_hardware(question.regions, question.provisioning))
    if pick > len(shown):
        raise CommandError(f"--pick: must be 1 to {len(shown)}, got {pick}")
