"""Writes a choice of a plan to a stack file."""

from collections.abc import Sequence

from pydantic import TypeAdapter, ValidationError
from rich.console import Console

from gke_inference.settings.fields import ModelName
from infra.reading.edit import Placement, write_model
from infra.stack.problems import StackError, problems_of
from planner.choice.plan import Choice, ladder
from planner.choice.question import Question
from scripts.terminal.console import CommandError, console


def check_name(name: str | None) -> None:
    """Refuse a name that a model of a stack cannot have.

    Raises:
        CommandError: The message names the option.
    """
    try:
        TypeAdapter[str | None](ModelName | None).validate_python(name)
    except ValidationError as error:
        raise CommandError(str(problems_of(error)[0].at("--name"))) from None


def write_choice(
    stack: str,
    name: str | None,
    question: Question,
    one: Choice,
    choices: Sequence[Choice],
    output: Console = console,
) -> None:
    """Write a choice to a stack as a new capacity with a model.

    Args:
        stack: Name of the stack.
        name: Name of the model in the stack; None: the model's own.
        question: Question that the choice answers.
        one: Choice to write.
        choices: All choices, for the other rungs of the capacity.
        output: Where to print what was written.

    Raises:
        CommandError: The stack would be invalid; its file is unchanged.
    """
    form = one.candidate.form
    if one.provisioning == "reservation":
        raise CommandError("--pick: must be a choice without a reservation, whose name is unknown")
    if form.bits < 8 < question.model.bits:
        raise CommandError(
            f"--pick: must be a choice of at least 8 bits, got {form.bits}: that is another"
            " checkpoint"
        )
    model = name or question.model.name
    try:
        file = write_model(stack, model, _placement(question, one, choices))
    except StackError as error:
        raise CommandError(f"--write: {stack} is unchanged: {error}") from None
    output.print(f"wrote model {model} on capacity {model}-plan to {file}")


def _placement(question: Question, one: Choice, choices: Sequence[Choice]) -> Placement:
    ways = tuple(each.provisioning for each in ladder(one, choices))
    most = max(one.replicas_high, 2 * one.replicas)
    return placement_of(question, one, ways, replicas=one.replicas, most_replicas=most)


def placement_of(
    question: Question, one: Choice, ways: tuple[str, ...], *, replicas: int, most_replicas: int
) -> Placement:
    """Return a choice in stack terms.

    Args:
        question: Question that the choice answers.
        one: Choice.
        ways: Provisioning of its rungs, in the order in which they are tried.
        replicas: Minimum number of replicas in each region.
        most_replicas: Maximum number of replicas in each region.
    """
    form = one.candidate.form
    return Placement(
        accelerator=form.word,
        provisioning=ways,
        topology=form.topology,
        count=None if form.topology else form.count,
        hosts=form.hosts if form.hosts > 1 and not form.topology else None,
        network="tcp" if form.network == "tcp" else None,
        region=one.region,
        tensor_parallel=form.devices if form.copies > 1 else None,
        parameters_billion=one.candidate.shape.parameters_billion,
        bits=form.bits,
        checkpoint_bits=question.model.bits,
        context=question.longest,
        replicas=replicas,
        most_replicas=most_replicas,
        experts=form.experts,
        kv_cache_dtype="fp8" if question.kv_bits == 8 else None,
        slo_ms=(int(question.ttft_p95_ms), int(question.tpot_p95_ms)),
        weights=question.model.name,
        engine=question.engine,
    )
