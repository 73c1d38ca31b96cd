"""`gke-inference up`: deploys a stack on the twin, until a model answers through the gateway."""

import os
import time
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from gke_inference.catalogue.load_balancing import CATALOGUE_PATH
from infra.plan import Plan
from infra.reading.load import teams_of
from infra.stack import Layer
from scripts.backend.drift import drift_of, repair
from scripts.backend.recovery import recover
from scripts.client_keys.apps import check_apps
from scripts.client_keys.permissions import names_of
from scripts.operate.first_answer import (
    GENERATING,
    check_installed,
    first_answer,
    first_model,
    unasked,
)
from scripts.operate.real_replica import keep_real
from scripts.operate.refusals import (
    refuse_absence,
    refuse_busy_port,
    refuse_late_requests,
    refuse_shortage,
    refuse_unbuilt,
)
from scripts.operate.sample_weights import SampleWeights
from scripts.operate.scenario import load_scenario, play
from scripts.operate.stack_tools import environments_of, picker_stand_in, purposes_of
from scripts.shared.clusters import close, of_twin
from scripts.shared.dashboard_files import publish
from scripts.shared.data_loss import guard
from scripts.shared.engine import (
    Engine,
    OfficialOption,
    check_file,
    official_to_deploy,
)
from scripts.shared.engine_progress import VerboseOption, run_update
from scripts.shared.hosts import lead, save
from scripts.shared.model_client import KEY_VARIABLE, models, preload
from scripts.shared.placements import settled
from scripts.shared.platform_state import check_platform_is_up
from scripts.shared.program_hosts import program_hosts
from scripts.shared.replica_status import (
    find_replicas,
    metrics_of,
    own_namespace,
    print_prometheus,
    print_replicas,
)
from scripts.shared.tool_setup import ensure_environment, ensure_tools
from scripts.shared.weights_status import find_waiting, print_waiting
from scripts.terminal.console import CommandError, console, step
from scripts.terminal.options import StackOption, check_one, check_positive, plan_of, stack_of
from twin import daemon
from twin.cluster.agent.launching.real_engine import ask_for
from twin.host.paths import TwinPaths
from twin.toolchain import needed_by, prepare_beside
from twin.world.rules import DEFAULT_SPEED, Rules

_ANSWER_SECONDS = 120
_SETTLE_SECONDS = 30
_PUSH_SECONDS = 120.0
_GATE_SECONDS = 4.0  # the weights gate polls every two seconds
_REAL_SECONDS = 600  # the real vLLM starts in half a minute, on a busy machine in minutes


def _output_folder(paths: TwinPaths, stack: str) -> Path:
    folder = paths.root.parent / stack
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _obtain_tools(plan: Plan) -> None:
    """Obtain the tools of the stack, and start preparing those that nothing waits for."""
    ensure_tools(*purposes_of(plan))
    for environment in environments_of(plan):
        ensure_environment(environment)
    prepare_beside(needed_by("monitoring", "access"))


def _choose_real_engine(paths: TwinPaths, stack: str, model: str) -> None:
    """Record the model with a real replica, replacing an earlier one.

    Raises:
        twin.toolchain.ToolError: A requirement is not installed.
    """
    if model:
        check_installed(stack, model)
    paths.root.mkdir(parents=True, exist_ok=True)
    ask_for(paths, model or None)


def _check(stack: str, paths: TwinPaths, speed: float, real_engine: str) -> None:
    """Refuse invalid options, missing images and a busy port, before anything starts."""
    check_file(stack)
    refuse_unbuilt(stack, paths)
    check_positive("--speed", speed)
    if real_engine:
        check_one("--real-engine", real_engine, stack_of(stack).models)
    refuse_busy_port(stack, paths)


def _prepared(engine: Engine, stack: str) -> Engine:
    """Return the engine with the stack in its backend, and with a state that is true.

    A killed run leaves unfinished operations; somebody may have deleted or changed objects.
    """
    engine.ensure_stack(stack)
    engine.wait_for_others(stack)
    restarted = daemon.repair(engine.paths)
    if restarted:
        console.print(f"Restarted: {', '.join(restarted)}.")
    recover(engine, stack)
    clusters = list(of_twin(engine.paths))
    repair(engine, stack, drift_of(engine.resources_of(stack), clusters))
    close(clusters)
    return engine


def up(
    stack: StackOption = "local",
    scenario: Annotated[
        str,
        typer.Option(
            help="Scenario to play after the deployment: a name in twin/scenarios, or a file."
        ),
    ] = "",
    speed: Annotated[
        float, typer.Option(help="Speed of the twin's clock, as a multiple of real time.")
    ] = DEFAULT_SPEED,
    real_engine: Annotated[
        str, typer.Option(help="Run one replica of this model with the real engine.")
    ] = "",
    weights: Annotated[
        bool,
        typer.Option(
            "--weights/--no-weights",
            help="Push small sample weights to the twin's buckets; without them models wait.",
        ),
    ] = True,
    over_quota: Annotated[
        bool,
        typer.Option("--over-quota", help="Deploy even if a quota of the twin is insufficient."),
    ] = False,
    official: OfficialOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Deploy a stack on the twin and ask a model through the gateway.

    Run it again to repair or update the deployment. Exits 1, with nothing changed, if a quota is
    insufficient, an image has yet to be built, another program has the port of the gateway, or the
    update would lose a protected resource.
    """
    begun = time.monotonic()
    paths = TwinPaths.default()
    _check(stack, paths, speed, real_engine)
    plugins = official_to_deploy(official)
    if not over_quota:
        refuse_shortage(stack, scenario)
    refuse_absence(stack, paths, scenario)
    refuse_late_requests(stack, paths, scenario)
    _choose_real_engine(paths, stack, real_engine)
    planned = load_scenario(scenario, paths) if scenario else None
    plan = plan_of(stack)
    model = first_model(plan)
    is_platform = plan.platform.layer is Layer.PLATFORM
    if planned is not None and not is_platform:
        check_client(plan, model)
    if not is_platform and not os.environ.get(KEY_VARIABLE):
        check_apps(plan, names_of(plan, plan.platform.models))
    hosts = program_hosts(paths, plugins)
    _obtain_tools(plan)
    engine = _prepared(Engine(paths, speed, plugins, hosts), stack)
    check_platform_is_up(engine, stack)
    if planned is not None:
        planned.prepare()
    factor = Rules.of(paths).speed
    console.print(f"The twin's clock runs {factor:g} times faster than real time.")
    if said := picker_stand_in(plan):
        console.print(said)
    guard(engine, stack)
    preload()
    pushed = SampleWeights(plan, paths) if weights and not is_platform else None
    _deploy(engine, stack, pushed, verbose)
    if hosts is not None:
        hosts.close()
    outputs = engine.outputs(stack)
    lead(outputs, paths.ca_bundle)
    endpoint: str = outputs["endpoint"]
    folder = _output_folder(paths, stack)
    if is_platform:
        _end_of_platform(stack, outputs, begun)
        return
    if pushed is None:
        _end_without_weights(paths, stack, outputs, begun)
        return
    limit = _REAL_SECONDS if real_engine else _ANSWER_SECONDS
    with _let_in(stack, plan, names_of(plan, plan.platform.models)):
        lines: list[str] = []
        if model is not None:
            with step("Waiting for an answer through the gateway"):
                lines = first_answer(plan, model, endpoint, folder, limit)
        with step("Waiting until every replica is ready or has no rung left"):
            settled(paths, limit if real_engine else _SETTLE_SECONDS)
        if real_engine:
            with step("Waiting for the real engine"):
                pod = keep_real(paths, _namespace(stack), real_engine, _REAL_SECONDS)
            console.print(f"{pod} is the real engine.")
        (folder / "endpoint").write_text(endpoint + "\n")
        save(endpoint, folder / "address")
        console.print("\n" + "\n".join([*lines, *_of_no_team(plan)]) + "\n")
        _print_addresses(paths, stack, outputs)
    console.print(f"Took     {time.monotonic() - begun:.1f} s")
    _print_how_to_get_a_key(stack, plan)
    if planned is not None and model is not None:
        with _let_in(stack, plan, [model]):
            play(planned, paths, endpoint, model, folder)


def check_client(plan: Plan, model: str | None) -> None:
    """Check that the client of a scenario has a model to ask.

    Raises:
        CommandError: It has none.
    """
    if model is None or plan.platform.models[model].task not in GENERATING:
        rule = "must be omitted for a stack without a model that generates text, images or videos"
        raise CommandError(f"--scenario: {rule} and that a team may ask")


def _of_no_team(plan: Plan) -> list[str]:
    """Return a line about the models that no team of clients may ask, if there are any."""
    names = unasked(plan)
    return [f"No team may ask {', '.join(names)} (clients.teams)"] if names else []


@contextmanager
def _let_in(stack: str, plan: Plan, names: Iterable[str]) -> Generator[None]:
    """Use temporary client keys for some models if the gateway requires them."""
    if not plan.platform.needs_keys():
        yield
        return
    # Access to the secret takes time to load, and most stacks do not need it.
    from scripts.client_keys.documents import KeyProblem  # noqa: PLC0415
    from scripts.client_keys.temporary import temporary_keys  # noqa: PLC0415
    from scripts.shared.google_cloud import CloudError  # noqa: PLC0415

    try:
        with temporary_keys(stack, plan, names):
            yield
    except (CloudError, KeyProblem) as error:
        raise CommandError(str(error)) from None


def _print_how_to_get_a_key(stack: str, plan: Plan) -> None:
    if plan.platform.apigee() is not None:
        command = f"pulumi stack output apigee_keys --show-secrets --stack {stack}"
        console.print(f'Keys     {command}, after eval "$(gke-inference env)"', soft_wrap=True)
    if plan.clients is not None:
        team = next(iter(plan.clients.settings.teams))
        console.print(f"Key      gke-inference clients keys create {team} --stack {stack}")


def _deploy(engine: Engine, stack: str, pushed: SampleWeights | None, is_verbose: bool) -> None:
    """Run `pulumi up`, and push sample weights in parallel, like a user in another shell.

    Raises:
        CommandError: One of them failed.
    """
    if pushed is not None:
        pushed.start()
    arguments = ("up", "--yes", "--skip-preview", "-s", stack)
    if run_update(engine, *arguments, is_verbose=is_verbose):
        if pushed is not None:
            pushed.stop()
        raise CommandError(f"up of {stack} failed; see above. Run it again to continue")
    if pushed is not None:
        pushed.finish(_PUSH_SECONDS)
        if pushed.pushed:
            names = ", ".join(sorted(pushed.pushed))
            console.print(f"Pushed sample weights of {names}", soft_wrap=True, markup=False)


def _end_without_weights(
    paths: TwinPaths, stack: str, outputs: dict[str, Any], begun: float
) -> None:
    """Show the models that wait for weights, as in a new project."""
    with step("Waiting until every model is ready or waits for its weights"):
        settled(paths, _SETTLE_SECONDS, quiet=_GATE_SECONDS)
    print_waiting(find_waiting(of_twin(paths), _namespace(stack)), stack)
    _print_addresses(paths, stack, outputs)
    console.print(f"Took     {time.monotonic() - begun:.1f} s")


def _end_of_platform(stack: str, outputs: dict[str, Any], begun: float) -> None:
    """Show the gateway of a platform, and the serving stacks for it."""
    console.print(f"Gateway  {outputs['endpoint']}  (no models: serving stacks bring them)")
    for name, team in teams_of(stack).items():
        console.print(f"Team     {team}: make up STACK={name}")
    console.print(f"Took     {time.monotonic() - begun:.1f} s")


def _namespace(stack: str) -> str:
    return plan_of(stack).names.namespace()


def _print_addresses(paths: TwinPaths, stack: str, outputs: dict[str, Any]) -> None:
    """Print the replicas and the addresses of gateway, dashboards and metrics."""
    endpoint: str = outputs["endpoint"]
    plan = plan_of(stack)
    print_replicas(find_replicas(of_twin(paths), own_namespace(plan.names)))
    console.print(f"Gateway  {endpoint}  (also in {paths.root.parent.name}/{stack}/endpoint)")
    for url in publish(plan, paths).values():
        console.print(f"Watch    {url}", soft_wrap=True)
    listed_at = str(outputs.get("catalogue", CATALOGUE_PATH)).removesuffix(CATALOGUE_PATH)
    console.print(f"Models   {', '.join(models(endpoint + listed_at))}")
    print_prometheus(metrics_of(paths))
