"""`gke-inference calibrate`: compares running engines with the models of them."""

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from gke_inference.catalogue.accelerators import accelerator_names
from gke_inference.catalogue.engines import DEFAULT_ENGINE, engine
from infra.plan import Plan
from infra.stack import Layer
from planner.speed.calibrated import Calibration, write_calibration
from scripts.calibrate.comparing import Comparison, compared, pooled
from scripts.calibrate.series import SCRAPE_SECONDS, counters, engines, together
from scripts.calibrate.show import print_comparisons
from scripts.calibrate.sources import (
    Server,
    server_of,
    sites_in_cloud,
    sites_on_twin,
)
from scripts.calibrate.stack import Site, Window, compare_stack
from scripts.shared.calibration_files import calibration_of
from scripts.shared.deployments import deployment_of
from scripts.shared.google_cloud import CloudError
from scripts.terminal.console import CommandError, console
from scripts.terminal.options import STACK_HELP, check_one, plan_of
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.output_files import check_output, write_output
from scripts.terminal.where import OnOption, Where, say_where
from twin.cluster.monitoring.promql import QueryError
from twin.host.paths import TwinPaths
from twin.wire.kube import KubeError


def calibrate(
    stack: Annotated[
        str | None, typer.Option(help=f"{STACK_HELP} All of its models and rungs are compared.")
    ] = None,
    on: OnOption = Where.TWIN,
    prometheus: Annotated[
        str | None,
        typer.Option(
            help="Prometheus server, such as http://HOST:PORT or https://HOST/PATH. Default with"
            " --stack: that of the twin, or Managed Prometheus."
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File with a bearer token for --prometheus. Default: the token in the"
            " environment, if there is one."
        ),
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option(help="PEM file with the certificates that --prometheus is checked against."),
    ] = None,
    matchers: Annotated[
        str,
        typer.Option(
            help='With --prometheus: PromQL matchers of the engines, such as pod=~"llama-.*".'
        ),
    ] = "",
    model: Annotated[
        str | None, typer.Option(help="Without --stack: model ID, as passed to the engine.")
    ] = None,
    accelerator: Annotated[
        str | None, typer.Option(help="Without --stack: accelerator, such as nvidia-l4.")
    ] = None,
    chips: Annotated[
        int | None,
        typer.Option(min=1, help="Without --stack: chips per replica. Default: 1."),
    ] = None,
    flag: Annotated[
        list[str] | None,
        typer.Option(help="Without --stack: flag of the engine, as --flag=FLAG; repeat for more."),
    ] = None,
    minutes: Annotated[
        float, typer.Option(min=2, max=1440, help="Period until now, in minutes.")
    ] = 10.0,
    write: Annotated[
        Path | None, typer.Option(help="Calibration file to write, or to change.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Compare the step times of a running platform's engines with the engine model.

    Exits 0 also where they differ. With --write, differences beyond noise go into a file that
    plan, cost, replay and rehearse read with --calibration.
    """
    single = {"--model": model, "--accelerator": accelerator, "--chips": chips, "--flag": flag}
    server = _server(prometheus, token_file, ca_file, matchers)
    check_output("--write", write)
    if stack is None:
        known = _known(write, None)
        rows = [_one(server, matchers, minutes, model, accelerator, chips, flag)]
        end = time.time()
    else:
        for option, value in single.items():
            if value:
                raise CommandError(f"{option}: must be omitted with --stack, got {value!r}")
        plan = plan_of(stack)
        if plan.platform.layer is not Layer.ALL:
            rule = "must have clusters and models"
            raise CommandError(f"--stack: {rule}, got {stack!r}, which has one of them")
        known = _known(write, stack)
        say_where(on, plan.platform.project)
        end = time.time()
        with _sites(plan, stack, on, server, matchers) as sites:
            rows = compare_stack(sites, Window(minutes, end))
    _finish(rows, minutes, end, write, known, output)


def _server(
    prometheus: str | None, token_file: Path | None, ca_file: Path | None, matchers: str
) -> Server | None:
    if prometheus is not None:
        return server_of(prometheus, token_file, ca_file)
    given = {"--token-file": token_file, "--ca-file": ca_file, "--matchers": matchers}
    for option, value in given.items():
        if value:
            raise CommandError(
                f"{option}: must be omitted without --prometheus, got {str(value)!r}"
            )
    return None


def _one(
    server: Server | None,
    matchers: str,
    minutes: float,
    model: str | None,
    accelerator: str | None,
    chips: int | None,
    flags: list[str] | None,
) -> Comparison:
    """Return the comparison of engines of no stack."""
    if server is None:
        raise CommandError("--stack: is required, or --prometheus with --model and --accelerator")
    if not model:
        raise CommandError("--model: is required without --stack")
    if accelerator is None:
        raise CommandError("--accelerator: is required without --stack")
    check_one("--accelerator", accelerator, accelerator_names())
    deployment = deployment_of(model, accelerator, chips or 1, flags or [])
    end = time.time()
    facts = engine(DEFAULT_ENGINE)
    try:
        found = engines(
            lambda name: server.history(name, end - 60 * minutes, end, SCRAPE_SECONDS),
            counters(facts.metrics),
            matchers,
        )
    except QueryError as error:
        raise CommandError(f"--prometheus: {error}") from None
    if not found:
        rule = "must match series of vLLM engines, got none in this period"
        raise CommandError(f"--matchers: {rule}")
    grown = together([each.grown() for each in found])
    return compared(model, f"{accelerator} x{chips or 1}", facts.title, grown, deployment)


@contextmanager
def _sites(
    plan: Plan, stack: str, on: Where, server: Server | None, matchers: str
) -> Generator[Sequence[Site]]:
    """Open the clusters of a stack; refusals become command errors.

    Raises:
        CommandError: As what runs inside.
    """
    try:
        if on.is_twin:
            yield sites_on_twin(plan, stack, TwinPaths.default(), server, matchers)
            return
        # Google's clients take a second to load, and the twin needs none of them.
        from scripts.shared import google_clients  # noqa: PLC0415

        cloud = google_clients.connect(plan.platform.project)
        with google_clients.plain_errors():
            yield sites_in_cloud(
                plan, stack, cloud, lambda: google_clients.token_of(cloud), server, matchers
            )
    except QueryError as error:
        option = "the metrics" if server is None else "--prometheus"
        raise CommandError(f"{option}: {error}") from None
    except KubeError as error:
        raise CommandError(f"a cluster of {stack}: {error.message}") from None
    except CloudError as error:
        raise CommandError(f"project {plan.platform.project}: {error}") from None


def _known(file: Path | None, stack: str | None) -> Calibration:
    """Return the file that is changed, or an empty one.

    Raises:
        CommandError: It is not a calibration, or one of another stack.
    """
    if file is None or not file.exists():
        return Calibration(stack=stack, entries=())
    found = calibration_of(str(file), option="--write")
    if found.stack != stack:
        rule = f"must be {stack!r}" if stack else "must be null without --stack"
        raise CommandError(f"--write: {file}: stack: {rule}, got {found.stack!r}")
    return found


def _finish(
    rows: Sequence[Comparison],
    minutes: float,
    end: float,
    write: Path | None,
    known: Calibration,
    output: Output,
) -> None:
    """Print the comparisons, and write the file."""
    entries = [(row, row.entry(minutes, end)) for row in rows]
    if output.is_data:
        print_data([row.plain(entry) for row, entry in entries], output)
    else:
        print_comparisons(rows)
    if write is None:
        return
    replicas = pooled(rows)
    new = [entry for each in replicas if (entry := each.entry(minutes, end)) is not None]
    gone = {each.replica for each in replicas if each.replica is not None}
    changed = known.updated(new, gone)
    write_output("--write", write, lambda file: write_calibration(file, changed))
    if not output.is_data:
        says = f"{len(new)} of {len(replicas)} replicas differ from the engine model"
        console.print(
            f"{write}: {says}; plan, cost, replay and rehearse read it with --calibration",
            soft_wrap=True,
            markup=False,
        )
