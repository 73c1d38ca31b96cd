"""`gke-inference up`: the whole platform on the twin, ended by an answer through its gateway."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from scripts import status as status_command
from scripts.ask import models
from scripts.console import CommandError, console, step
from scripts.dashboards import publish
from scripts.engine import Engine, check_file
from scripts.first_answer import check_installed, first_answer
from scripts.guard import guard
from scripts.placements import settled
from scripts.quota import refuse_shortage
from scripts.real_replica import keep_real
from scripts.recover import recover
from scripts.scenario import load_scenario, play
from scripts.words import check_one, check_positive, plan_of, stack_of
from twin import daemon
from twin.cluster.agent.launching.real_engine import ask_for
from twin.host.paths import TwinPaths
from twin.world.rules import DEFAULT_SPEED, Rules

_ANSWER_SECONDS = 120
_SETTLE_SECONDS = 30
_REAL_SECONDS = 600  # the real vLLM starts in half a minute, on a busy machine in minutes


def _output_folder(paths: TwinPaths, stack: str) -> Path:
    folder = paths.root.parent / stack
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _choose_real_engine(paths: TwinPaths, stack: str, model: str) -> None:
    """Say which model has a real replica; what said so before does not hold any more.

    Raises:
        twin.toolchain.ToolError: what it needs is not installed.
    """
    if model:
        check_installed(stack, model)
    paths.root.mkdir(parents=True, exist_ok=True)
    ask_for(paths, model or None)


def _check(stack: str, speed: float, real_engine: str) -> None:
    """Refuse words that cannot be, before anything is started."""
    check_file(stack)
    check_positive("--speed", speed)
    if real_engine:
        check_one("--real-engine", real_engine, stack_of(stack).models)


def up(
    stack: Annotated[str, typer.Option(help="Environment: a file stacks/Pulumi.NAME.yaml.")] = (
        "local"
    ),
    scenario: Annotated[
        str, typer.Option(help="What happens to capacity afterwards: twin/scenarios/NAME.yaml.")
    ] = "",
    speed: Annotated[
        float, typer.Option(help="How much faster than Google's the twin's clock runs.")
    ] = DEFAULT_SPEED,
    real_engine: Annotated[
        str, typer.Option(help="Model of which one replica is the real engine, on this machine.")
    ] = "",
    over_quota: Annotated[
        bool,
        typer.Option(
            "--over-quota", help="Deploy although the twin's quotas are too small for the stack."
        ),
    ] = False,
) -> None:
    """Deploy a stack on the twin and ask a model through the gateway; run again to repair."""
    begun = time.monotonic()
    paths = TwinPaths.default()
    _check(stack, speed, real_engine)
    if not over_quota:
        refuse_shortage(stack, scenario)
    _choose_real_engine(paths, stack, real_engine)
    planned = load_scenario(scenario, paths) if scenario else None
    engine = Engine(paths, speed)
    engine.ensure_stack(stack)
    restarted = daemon.repair(paths)
    if restarted:
        console.print(f"Started again: {', '.join(restarted)}.")
    recover(engine, stack)
    if planned is not None:
        planned.prepare()
    factor = Rules.of(paths).speed
    console.print(f"The twin's clock runs {factor:g} times faster than Google's.")
    guard(engine, stack)
    if engine.run("up", "--yes", "--skip-preview", "-s", stack).returncode:
        raise CommandError(f"up of {stack} failed; see above. Run it again to go on")
    outputs = engine.outputs(stack)
    endpoint: str = outputs["endpoint"]
    folder = _output_folder(paths, stack)
    with step("Waiting for an answer through the gateway"):
        limit = _REAL_SECONDS if real_engine else _ANSWER_SECONDS
        first = first_answer(outputs, endpoint, folder, limit)
    with step("Waiting until every replica is ready or out of rungs"):
        settled(paths, limit if real_engine else _SETTLE_SECONDS)
    if real_engine:
        with step("Waiting for the real engine"):
            pod = keep_real(paths, real_engine, _REAL_SECONDS)
        console.print(f"{pod} is the real engine.")
    (folder / "endpoint").write_text(endpoint + "\n")
    console.print("\n" + "\n".join(first.lines) + "\n")
    _tell(paths, stack, outputs)
    console.print(f"Took     {time.monotonic() - begun:.1f} s")
    if planned is not None:
        play(planned, paths, endpoint, first.model, folder)


def _tell(paths: TwinPaths, stack: str, outputs: dict[str, Any]) -> None:
    """Print what runs where, and the addresses of gateway, dashboards and metrics."""
    endpoint: str = outputs["endpoint"]
    status_command.print_status(status_command.replicas(paths))
    console.print(f"Gateway  {endpoint}  (also in {paths.root.parent.name}/{stack}/endpoint)")
    for url in publish(plan_of(stack), paths).values():
        console.print(f"Watch    {url}", soft_wrap=True)
    console.print(f"Models   {', '.join(models(endpoint))}")
    status_command.print_prometheus(paths)
