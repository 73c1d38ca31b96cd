"""The gate of a canary: the last result of the evaluation that the stack names for it."""

from dataclasses import dataclass

from infra.plan import Plan
from infra.plan.optimization import sides_of
from infra.stack import Evaluation
from scripts.terminal.console import CommandError
from workloads.optimization.scores import Result, ResultError, Score, Side, prefix_of
from workloads.optimization.weights import version_in
from workloads.transfer.store import Store


@dataclass(frozen=True)
class Gate:
    """What stands between a canary and its requests."""

    evaluation: str
    """Name of the evaluation."""
    lines: tuple[str, ...]
    """Its scores, a line each."""
    problem: str
    """Why the share must not be raised; empty if it may be."""


def check_gate(plan: Plan, model: str, store: Store) -> Gate | None:
    """Return the gate of a model's canary, or None if the stack names no evaluation.

    Args:
        plan: The stack.
        model: Model with a canary.
        store: Storage of the stack.

    Raises:
        CommandError: The last result cannot be read.
        TransferError: The bucket cannot be read.
    """
    canary, settings = plan.platform.models[model].canary, plan.platform.optimization
    region = next((each for each in plan.regions.values() if each.optimization is not None), None)
    if canary is None or canary.evaluation is None or settings is None or region is None:
        return None
    name, bucket = canary.evaluation, region.storage.model_bucket
    evaluation = settings.evaluations[name]
    how = f"run it: kubectl -n jobs-{settings.team} create job --from=cronjob/evaluate-{name} NAME"
    found = last_result(store, bucket, name)
    if found is None:
        return Gate(name, (), f"has no result yet; {how}")
    problem = _changed(plan, evaluation, found, store, bucket)
    if problem:
        return Gate(name, (), f"{problem}; {how}")
    lost = tuple(found.lost(evaluation.tolerance))
    lines = tuple(_line(score, is_lost=score in lost) for score in found.scores)
    if not lost:
        return Gate(name, lines, "")
    worst = max(lost, key=lambda score: score.loss)
    rule = (
        f"lost {worst.loss:.4f} in {worst.task}, more than its tolerance {evaluation.tolerance:g}"
    )
    return Gate(name, lines, rule)


def last_result(store: Store, bucket: str, name: str) -> Result | None:
    """Return the last result of an evaluation, or None if there is none.

    Raises:
        CommandError: It cannot be read.
        TransferError: The bucket cannot be read.
    """
    names = sorted(store.objects(bucket, prefix_of(name)))
    text = store.read(bucket, names[-1]) if names else None
    if text is None:
        return None
    try:
        return Result.parse(text)
    except ResultError as error:
        raise CommandError(f"gs://{bucket}/{names[-1]}: {error}") from None


def _changed(plan: Plan, evaluation: Evaluation, found: Result, store: Store, bucket: str) -> str:
    """Return what has changed since a result, or nothing."""
    wanted = sides_of(plan.platform.models, evaluation)
    for side, was in zip(wanted, (found.candidate, found.baseline), strict=True):
        now = Side(side.model, side.version or "", version_in(store, bucket, side.weights))
        if now != was:
            return f"is of {_title(was)} on {found.time}, and not of {_title(now)}"
    return ""


def _title(side: Side) -> str:
    return f"{side.version or side.model} ({side.weights})"


def _line(score: Score, *, is_lost: bool) -> str:
    error = "" if score.error is None else f", standard error {score.error:.4f}"
    verdict = "worse" if is_lost else "not worse"
    return (
        f"{score.task} {score.metric}: {score.candidate:.4f}, stable {score.baseline:.4f}"
        f"{error}, {score.questions} questions: {verdict}"
    )
