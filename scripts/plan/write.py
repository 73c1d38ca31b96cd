"""Writes a choice of a plan to a stack file."""

from collections.abc import Sequence

from infra.reading.edit import Placement, write_model
from infra.stack.problems import StackError
from planner.choice.plan import Choice, Question, ladder
from scripts.terminal.console import CommandError, console


def write_choice(
    stack: str, name: str | None, question: Question, one: Choice, choices: Sequence[Choice]
) -> None:
    """Write a choice to a stack, as a new capacity and a model on it.

    Args:
        stack: Name of the stack.
        name: Name of the model in the stack; None: the model's own.
        question: Question that the choice answers.
        one: Choice to write.
        choices: All choices, for the other rungs of the capacity.

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
    console.print(f"wrote model {model} on capacity {model}-plan to {file}")


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
