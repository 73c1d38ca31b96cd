"""`gke-inference plan`: what to run a model on, before anything is paid for."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from gke_inference.catalogue.accelerators import accelerator_names
from gke_inference.catalogue.input_error import InputError
from gke_inference.sizing.architectures import Architecture, find, known, of_config
from infra.reading.load import stack_names
from infra.stack.problems import suggest
from planner.choice.chart import draw
from planner.choice.explain import explain as explained
from planner.choice.image_plan import picture_choices
from planner.choice.plan import FOR_SERVING, Choice, Plan, Question, best_forms
from planner.choice.plan import plan as ranked
from scripts.console import CommandError, console
from scripts.outputs import check_output, write_output
from scripts.plan_errors import print_errors
from scripts.plan_show import pictures_as_json, plan_as_json, print_pictures, print_plan
from scripts.plan_write import write_choice
from scripts.words import check_one, check_positive, check_words, option_of, regions, stack_of

_ROWS = 12
_OPTIONS = {
    "given": "--input",
    "input and output": "--input and --output",
    "made": "--output",
    "ttft_p95_ms": "--ttft-p95",
    "tpot_p95_ms": "--tpot-p95",
    "model": "MODEL",
}
"""Options by the planner's fields, where they differ."""
_NOWHERE = (
    "no accelerator that holds the model is offered in {} as {}: "
    "change --region, --provisioning or --accelerator"
)


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
    if parameters is not None:
        raise CommandError("--parameters: goes with the path of a config.json as MODEL")
    found = find(name)
    if found is None:
        names = ", ".join(sorted(model.name for model in known()))
        raise CommandError(
            f"MODEL: must be the path of a config.json or one of {names}, got {name!r}"
            f"{suggest(name, [model.name for model in known()])}"
        )
    return found


def _regions(asked: tuple[str, ...], stack: str | None) -> tuple[str, ...]:
    """Return the regions to look in: those asked for, or of the stack that is written."""
    if asked or stack is None:
        return asked
    return tuple(stack_of(stack, "--write").regions)


@dataclass(frozen=True)
class _Shown:
    """What to do with the answer."""

    rows: int
    every: bool
    as_json: bool
    explain: bool
    pick: int
    chart: Path | None
    write: str | None
    name: str | None


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
    context: Annotated[
        int, typer.Option(help="Longest sequence, in tokens; 0: 1.5 x prompt and answer.")
    ] = 0,
    utilisation: Annotated[float, typer.Option(help="Part of capacity to use at most.")] = 0.7,
    parameters: Annotated[float | None, typer.Option(help="Billions, for a config.json.")] = None,
    region: Annotated[list[str] | None, typer.Option(help="Only these regions.")] = None,
    accelerator: Annotated[list[str] | None, typer.Option(help="Only these.")] = None,
    provisioning: Annotated[list[str] | None, typer.Option(help="Only these ways.")] = None,
    bits: Annotated[list[int] | None, typer.Option(help="Only these precisions.")] = None,
    rows: Annotated[int, typer.Option(min=1, help="Choices to show.")] = _ROWS,
    every: Annotated[bool, typer.Option("--every", help="Every region and way to buy.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="All of it as JSON.")] = False,
    explain: Annotated[
        bool, typer.Option("--explain", help="The arithmetic of the chosen one.")
    ] = False,
    pick: Annotated[int, typer.Option(min=1, help="Which one to explain or write.")] = 1,
    chart: Annotated[Path | None, typer.Option(help="Draw cost against latency (SVG).")] = None,
    write: Annotated[
        str | None, typer.Option(help="Put it into this stack, with --context.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the model in the stack.")] = None,
    errors: Annotated[bool, typer.Option("--errors", help="How wrong estimates are.")] = False,
    against: Annotated[Path | None, typer.Option(help="--errors: on this CSV's points.")] = None,
) -> None:
    """Rank what could serve a model: hardware, price, latency, each with its uncertainty."""
    if errors or against is not None:
        print_errors(against)
        return
    if not model:
        raise CommandError("MODEL: is required (a name, or the path of a config.json)")
    if as_json and (explain or chart is not None):
        raise CommandError("--json: must stand without --explain and --chart")
    if parameters is not None:
        check_positive("--parameters", parameters)
    if name is not None and write is None:
        raise CommandError("--name: goes with --write: it is the model's name in the stack")
    if write is not None:
        check_one("--write", write, stack_names())
    check_output("--chart", chart)
    words = _words(region, provisioning, accelerator)
    found = _architecture(model, parameters)
    if found.kind == "diffusion":
        _refuse_for_images(found, {"--chart": chart, "--explain": explain, "--write": write})
        _pictures(found, rate, words, rows, as_json=as_json)
        return
    asked = {
        "rate": rate, "given": given, "made": made, "ttft_p95_ms": ttft_p95,
        "tpot_p95_ms": tpot_p95, "prefix_share": prefix_share, "utilisation": utilisation,
        "context": context, "bits": tuple(bits or ()),
    }  # fmt: skip
    question = _question(found, asked, words, write)
    _show(question, _Shown(rows, every, as_json, explain, pick, chart, write, name))


def _words(
    region: list[str] | None, provisioning: list[str] | None, accelerator: list[str] | None
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the words of three options, each one that is known."""
    return (
        check_words("--region", region, regions()),
        check_words("--provisioning", provisioning, FOR_SERVING),
        check_words("--accelerator", accelerator, accelerator_names()),
    )


def _question(
    model: Architecture,
    asked: dict[str, Any],
    words: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]],
    stack: str | None,
) -> Question:
    region, provisioning, accelerator = words
    if 0 < model.context < asked["context"]:
        most = f"at most the {model.context} tokens of {model.name}"
        raise CommandError(f"--context: must be {most}, got {asked['context']}")
    try:
        return Question(
            model=model,
            regions=_regions(region, stack),
            provisioning=provisioning,
            accelerators=accelerator,
            **asked,
        )
    except InputError as error:
        raise CommandError(option_of(error, _OPTIONS)) from None


def _show(question: Question, how: _Shown) -> None:
    """Print the answer, and do what else was asked for with it."""
    try:
        answer = ranked(question)
    except InputError as error:
        raise CommandError(option_of(error, _OPTIONS)) from None
    shown = list(answer.choices) if how.every else best_forms(answer.choices)
    _check_shown(question, shown, how.pick)
    if how.as_json:
        print(plan_as_json(answer, shown[: how.rows]))
    else:
        print_plan(answer, shown[: how.rows])
    one = shown[how.pick - 1]
    if how.explain:
        console.print(f"\n[bold]{how.pick}[/bold]")
        for line in explained(question, one):
            console.print(f"  {line}", markup=False)
    if how.chart is not None:
        write_output("--chart", how.chart, lambda file: _draw(answer, file))
    if how.write is not None:
        write_choice(how.write, how.name, question, one, answer.choices)


def _draw(answer: Plan, file: Path) -> None:
    try:
        console.print(f"{draw(answer, file)} forms drawn in {file}", markup=False, soft_wrap=True)
    except InputError as error:
        raise CommandError(option_of(error, _OPTIONS)) from None


def _check_shown(question: Question, shown: list[Choice], pick: int) -> None:
    if not shown:
        raise CommandError(_NOWHERE.format(*_said(question.regions, question.provisioning)))
    if pick > len(shown):
        raise CommandError(f"--pick: must be 1 to {len(shown)}, got {pick}")


def _said(regions: tuple[str, ...], provisioning: tuple[str, ...]) -> tuple[str, str]:
    return ", ".join(regions) or "any region", ", ".join(provisioning) or "any option"


def _refuse_for_images(model: Architecture, options: dict[str, object]) -> None:
    """Refuse options that the prices of pictures do not look at."""
    for option, value in options.items():
        if value:
            raise CommandError(f"{option}: must be left out for a model that draws ({model.name})")


def _pictures(
    model: Architecture,
    rate: float,
    words: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]],
    rows: int,
    *,
    as_json: bool,
) -> None:
    """Print what pictures cost on each accelerator."""
    region, provisioning, accelerator = words
    try:
        choices = picture_choices(
            model, rate, regions=region, provisioning=provisioning, accelerators=accelerator
        )
    except InputError as error:
        raise CommandError(option_of(error, _OPTIONS)) from None
    if not choices:
        raise CommandError(_NOWHERE.format(*_said(region, provisioning)))
    if as_json:
        print(pictures_as_json(choices))
    else:
        print_pictures(model, rate, model.steps, choices[:rows])
