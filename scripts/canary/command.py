"""`gke-inference canary`: raises the share of a second version unless it performs worse."""

import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from infra.plan import Plan
from infra.stack import Task
from scripts.backend.choose import open_backend
from scripts.canary.comparison import Rule
from scripts.canary.probes import Probe, asker, compare_probes, read_probes
from scripts.canary.rollout import Rollout
from scripts.canary.steps import Canary, Outcome, Settings, check_steps
from scripts.delivery.checkout import Checkout, checkout_of
from scripts.terminal.console import CommandError, console
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.options import StackOption, check_one, check_stack, plan_of
from scripts.terminal.where import OnOption, Where

ModelOption = Annotated[str, typer.Option(help="Model of the stack with a canary.")]
GitOption = Annotated[
    Path | None,
    typer.Option(
        help="Checkout of the repository that delivers the stack; only if it is delivered from Git."
    ),
]
_CLOUD_HOLD_SECONDS = 300.0
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}

canary = typer.Typer()


@canary.callback()
def canary_group() -> None:
    """Roll out a second version of a model to a rising share of its requests."""


@canary.command()
def run(
    stack: StackOption,
    model: ModelOption,
    steps: Annotated[str, typer.Option(help="Shares in percent, rising.")] = "5,25,50,100",
    hold: Annotated[str, typer.Option(help="Minimum time at a step, such as 5m or 30s.")] = "5m",
    patience: Annotated[
        str, typer.Option(help="Maximum wait at a step for enough requests. Default: 6 times hold.")
    ] = "",
    requests: Annotated[
        int, typer.Option(min=1, help="Minimum number of canary requests at a step.")
    ] = 200,
    alpha: Annotated[
        float,
        typer.Option(
            min=0.0001, max=0.5, help="Probability of rolling back a version that is equally good."
        ),
    ] = 0.05,
    margin: Annotated[
        float, typer.Option(min=0, max=100, help="Minimum difference, in percentage points.")
    ] = 1.0,
    probes: Annotated[
        Path | None,
        typer.Option(
            help="YAML list of prompts with `expect`, a regular expression for a good answer. Both"
            " versions answer them before the first step."
        ),
    ] = None,
    max_lost: Annotated[
        int,
        typer.Option(
            min=0,
            help="Maximum number of probes that the canary fails and the stable version passes.",
        ),
    ] = 0,
    git: GitOption = None,
    on: OnOption = Where.TWIN,
) -> None:
    """Raise a canary's share step by step; roll back if it performs worse.

    Compares answers to probes, and the shares of failed requests and of late first tokens. Exits 1
    after a rollback, and if the evaluation that the stack names for the canary did not pass.
    """
    check_stack(stack)
    if probes is None and max_lost:
        raise CommandError(f"--max-lost: must be used with --probes, got {max_lost} without it")
    asked = () if probes is None else read_probes(probes)
    settings = _settings(steps, hold, patience, Rule(alpha, margin, requests))
    if on.is_cloud and settings.hold_seconds < _CLOUD_HOLD_SECONDS:
        message = "must be 5m or more with --on cloud, where metrics arrive minutes late"
        raise CommandError(f"--hold: {message}, got {hold!r}")
    plan, checkout = _checked(stack, model, git, is_run=True)
    if not _is_open(plan, model, cloud=on.is_cloud):
        raise typer.Exit(ExitCode.CHECK_FAILED)
    with open_backend(stack, cloud=on.is_cloud) as backend:
        # HTTP clients take seconds to load; errors are reported before
        from scripts.accept import reach  # noqa: PLC0415
        from scripts.canary.measuring import Measured, versions_of  # noqa: PLC0415
        from scripts.canary.rollout import check_ready  # noqa: PLC0415
        from twin.host.paths import TwinPaths  # noqa: PLC0415

        deployed = (
            reach.in_google_cloud(plan, stack)
            if on.is_cloud
            else reach.on_twin(plan, stack, TwinPaths.default())
        )
        check_ready(deployed, model)
        newer, older = versions_of(plan, model, is_twin=deployed.is_twin)
        slo = plan.platform.models[model].slo
        promised = None if slo is None else slo.ttft_p95_ms
        threshold = None if promised is None else promised / 1000
        regions = tuple(served.region for served in plan.models[model])
        measured = Measured(deployed, regions, newer, older, threshold, requests)
        rollout = Rollout(stack, model, backend, checkout, time.sleep)
        rollout.check_rendered()
        if asked and not _passes(asked, max_lost, plan, model, backend.endpoint()):
            _tell("Setting the share to 0%")
            rollout.set_percent(0)
            _tell("0%: the canary gets no requests")
            raise typer.Exit(ExitCode.CHECK_FAILED)
        tried = Canary(settings, measured, rollout.set_percent, sleep=time.sleep, tell=_tell)
        where = "" if git is None else f" --git {git}"
        back = f"--stack {stack} --model {model}{where}{on.option}"
        outcome = _run(tried, plan, model, back)
    if outcome is Outcome.ROLLED_BACK:
        raise typer.Exit(ExitCode.CHECK_FAILED)
    last = settings.steps[-1]
    _tell(f"The canary answers {last}%; to promote it, {_promotion(plan, model, last)}.")


def _passes(probes: tuple[Probe, ...], most: int, plan: Plan, model: str, endpoint: str) -> bool:
    """Return whether the canary of a model loses few enough probes, and report those it loses."""
    from gke_inference.gateway.canary import STABLE, VERSION_HEADER  # noqa: PLC0415 - loads Pulumi

    canary = plan.platform.models[model].canary
    if canary is None:
        raise ValueError(f"{model} must have a canary")
    found = compare_probes(probes, canary.version, STABLE, asker(endpoint, model, VERSION_HEADER))
    for one in found.lost:
        _tell(f"lost probe: {one}")
    is_passed = len(found.lost) <= most
    end = "" if is_passed else f", more than --max-lost {most}"
    lost = f"the canary lost {len(found.lost)} of {found.compared}"
    _tell(f"Probes: {lost} that the stable version passes, of {len(probes)}{end}")
    return is_passed


def _run(tried: Canary, plan: Plan, model: str, back: str) -> Outcome:
    """Run the steps; if they do not pass, report the remaining share."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    outcome = None
    try:
        outcome = tried.run()
        return outcome
    finally:
        signal.signal(signal.SIGTERM, before)
        if outcome is not Outcome.PASSED:
            _tell(_left(tried, plan, model, back))


def _left(tried: Canary, plan: Plan, model: str, back: str) -> str:
    """Return the share of a canary after a run, and how to roll it back."""
    canary = plan.platform.models[model].canary
    share = tried.share
    if share is None:
        share = 0 if canary is None else canary.percent
    also = (
        "" if tried.tried in (None, share) else f", or {tried.tried}% once that change is applied"
    )
    how = f"gke-inference canary rollback {back}"
    return f"The canary's share is {share}%{also}. To set it to 0: {how}"


def _promotion(plan: Plan, model: str, percent: int) -> str:
    """Return how to make a canary the stable version, as docs/canaries.md explains."""
    canary = plan.platform.models[model].canary
    is_other = canary is not None and canary.engine is not None
    parts = "engine, settings and weights" if is_other else "weights"
    first = "" if percent == 100 else "set percent to 100, then "
    return f"{first}write its {parts} into the model, and remove the canary when that is ready"


@canary.command()
def check(stack: StackOption, model: ModelOption, on: OnOption = Where.TWIN) -> None:
    """Check whether the evaluation that the stack names for a canary passed.

    Exits 1 if it did not: for a pipeline that raises the share by a commit.
    """
    check_stack(stack)
    plan, _ = _checked(stack, model, None, is_run=False)
    settings = plan.platform.models[model].canary
    if settings is None or settings.evaluation is None:
        raise CommandError(f"--model: must have a canary with an evaluation, got {model!r}")
    if not _is_open(plan, model, cloud=on.is_cloud):
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _is_open(plan: Plan, model: str, *, cloud: bool) -> bool:
    """Return whether the evaluation of a canary lets it have requests, and report its scores."""
    settings = plan.platform.models[model].canary
    if settings is None or settings.evaluation is None:
        return True
    # Google's client takes a second to load
    from scripts.canary.gate import check_gate  # noqa: PLC0415
    from scripts.models.session import open_store, plain_errors  # noqa: PLC0415

    with plain_errors():
        store = open_store(plan.project.id, on_twin=not cloud, workers=1)
        gate = check_gate(plan, model, store)
    if gate is None:
        return True
    for line in gate.lines:
        _tell(line)
    verdict = "passed" if not gate.problem else gate.problem
    _tell(f"Evaluation {gate.evaluation}: {verdict}")
    return not gate.problem


@canary.command()
def rollback(
    stack: StackOption, model: ModelOption, git: GitOption = None, on: OnOption = Where.TWIN
) -> None:
    """Set the canary's share to 0."""
    check_stack(stack)
    _, checkout = _checked(stack, model, git, is_run=False)
    with open_backend(stack, cloud=on.is_cloud) as backend:
        Rollout(stack, model, backend, checkout, time.sleep).set_percent(0)
    _tell("0%: rolled back")


def _checked(
    stack: str, model: str, git: Path | None, *, is_run: bool
) -> tuple[Plan, Checkout | None]:
    """Return the stack and its checkout.

    Refuse a model that cannot be compared, and an unsuitable checkout.
    """
    plan = plan_of(stack)
    check_one("--model", model, plan.platform.models)
    settings = plan.platform.models[model]
    if settings.canary is None:
        raise CommandError(f"--model: must have a canary in the stack, got {model!r}")
    if settings.task is not Task.GENERATE:
        raise CommandError(f"--model: must be a model of task generate, got {settings.task.value}")
    return plan, checkout_of(plan, stack, git, is_run=is_run)


def _settings(steps: str, hold: str, patience: str, rule: Rule) -> Settings:
    try:
        shares = tuple(int(each.strip().removesuffix("%")) for each in steps.split(","))
    except ValueError:
        raise CommandError(f"--steps: must be numbers such as 5,25,50,100, got {steps!r}") from None
    if problem := check_steps(shares):
        raise CommandError(f"--steps: {problem}, got {steps!r}")
    held = _seconds("--hold", hold)
    longest = _seconds("--patience", patience) if patience else 6 * held
    if longest < held:
        raise CommandError(f"--patience: must be at least --hold, {hold}, got {patience!r}")
    return Settings(shares, held, longest, max(1.0, held / 5), rule)


def _seconds(option: str, text: str) -> float:
    """Return a duration such as 5m or 30s."""
    number, unit = text[:-1], _UNITS.get(text[-1:])
    if unit is None or not number.isdecimal() or int(number) < 1:
        raise CommandError(f"{option}: must be a time such as 30s, 5m or 1h, got {text!r}")
    return int(number) * unit


def _tell(line: str) -> None:
    console.print(line, soft_wrap=True, markup=False)
