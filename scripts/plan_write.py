"""Puts a choice of a plan into a stack file."""

from collections.abc import Sequence

from infra.reading.edit import Placement, write_model
from infra.stack.problems import StackError
from planner.choice.plan import Choice, Question, ladder
from scripts.console import CommandError, console


def write_choice(
    stack: str, name: str | None, question: Question, one: Choice, choices: Sequence[Choice]
) -> None:
    """Put a choice into a stack, as a capacity of its own with the model on it.

    Args:
        stack: name of the stack, whose file is written.
        name: of the model in the stack; None: the model's own.
        question: that the choice answers.
        one: the choice.
        choices: all of them, for the other rungs of the capacity.

    Raises:
        CommandError: the stack could not be used with it; its file is left as it was.
    """
    form = one.candidate.form
    if one.provisioning == "reservation":
        raise CommandError("--write: must be bought without a reservation, whose name is not known")
    if form.bits < 8 < question.model.bits:
        raise CommandError(
            f"--write: must be of 8 bits or more, as weights of {form.bits} are another checkpoint"
        )
    model = name or question.model.name
    try:
        file = write_model(stack, model, _placement(question, one, choices))
    except StackError as error:
        raise CommandError(f"{stack} is left as it was: {error}") from None
    console.print(f"{file}: model {model} on capacity {model}-plan written")


def _placement(question: Question, one: Choice, choices: Sequence[Choice]) -> Placement:
    form = one.candidate.form
    return Placement(
        accelerator=form.word,
        provisioning=tuple(each.provisioning for each in ladder(one, choices)),
        topology=form.topology,
        count=None if form.topology else form.count,
        hosts=form.hosts if form.hosts > 1 and not form.topology else None,
        region=one.region,
        tensor_parallel=form.devices if form.copies > 1 else None,
        parameters_billion=one.candidate.shape.parameters_billion,
        bits=form.bits,
        checkpoint_bits=question.model.bits,
        context=question.longest,
        replicas=one.replicas,
        most_replicas=max(one.replicas_high, 2 * one.replicas),
        slo_ms=(int(question.ttft_p95_ms), int(question.tpot_p95_ms)),
    )
