"""`gke-inference calibrate`: compares running engines with the models of them."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from gke_inference.catalogue.accelerators import accelerator_names
from planner.speed.calibrated import (
    LEAST_FACTOR,
    MOST_FACTOR,
    Calibration,
    Entry,
    write_calibration,
)
from scripts.calibrate.series import SCRAPE_SECONDS, Grown, grown
from scripts.shared.calibration_files import calibration_of, precision_of
from scripts.shared.deployments import deployment_of
from scripts.terminal.console import CommandError, console
from scripts.terminal.options import check_one
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.output_files import check_output
from scripts.terminal.tables import Listing, figure, measured, print_table
from simulator.engine.core import cost_model
from simulator.engine.settings import Deployment
from simulator.engine.step_times import Compared, compare
from twin.cluster.monitoring import promql


def calibrate(
    prometheus: Annotated[str, typer.Option(help="Prometheus server, such as http://HOST:PORT.")],
    model: Annotated[str, typer.Option(help="Model ID, as passed to the engine.")],
    accelerator: Annotated[str, typer.Option(help="Accelerator of the rung, such as nvidia-l4.")],
    chips: Annotated[int, typer.Option(min=1, help="Chips per replica.")] = 1,
    flag: Annotated[
        list[str] | None,
        typer.Option(help="Flag of the engine, as --flag=FLAG; repeat for more."),
    ] = None,
    matchers: Annotated[
        str,
        typer.Option(help='PromQL matchers of the engines of this rung, such as pod=~"llama-.*".'),
    ] = "",
    minutes: Annotated[
        float, typer.Option(min=2, max=1440, help="Period until now, in minutes.")
    ] = 10.0,
    write: Annotated[
        Path | None,
        typer.Option(help="Calibration file to write, or to change: one entry per replica shape."),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Compare the step times of a running platform's vLLM engines with the engine model.

    Exits 0 also where they differ. With --write, a difference beyond noise goes into a file that
    plan, cost and replay read with --calibration.
    """
    check_one("--accelerator", accelerator, accelerator_names())
    check_output("--write", write)
    known = _known(write)
    address = address_of(prometheus)
    deployment = deployment_of(model, accelerator, chips, flag or [])
    end = time.time()
    try:
        found = grown(
            lambda name: promql.query_range(address, name, end - 60 * minutes, end, SCRAPE_SECONDS),
            matchers,
        )
    except promql.QueryError as error:
        raise CommandError(f"--prometheus: {error}") from None
    result = compared(found, deployment)
    entry = entry_of(result, found, deployment, model, chips, minutes, end)
    if write is not None:
        write_calibration(
            write, known.with_entry(entry) if known else Calibration(entries=(entry,))
        )
    if output.is_data:
        print_data(_plain(result, found, entry), output)
        return
    _print(result, found, model, f"{chips} x {accelerator}")
    if write is not None:
        console.print(f"{write}: plan, cost and replay use it with --calibration", soft_wrap=True)


def address_of(url: str) -> str:
    """Return host and port of a Prometheus server.

    Raises:
        CommandError: It is no such URL.
    """
    refused = CommandError(f"--prometheus: must be http://HOST:PORT, got {url!r}")
    try:
        parts = urlsplit(url if "//" in url else f"//{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise refused from None
    rest = parts.path.strip("/") or parts.query or parts.username
    if parts.scheme not in {"", "http"} or not host or port is None or rest:
        raise refused
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def compared(found: Grown, deployment: Deployment) -> Compared:
    """Return the comparison of the engines' growth with the model.

    Raises:
        CommandError: There are no engines, too few steps, or steps of another engine.
    """
    if not found.replicas:
        rule = "must match series of vLLM engines, got none in this period"
        raise CommandError(f"--matchers: {rule}")
    prompt, answer = found.mean("prompt_tokens", "prompts"), found.mean("answer_tokens", "answers")
    result = None
    if prompt is not None and answer is not None:
        result = compare(
            found.periods,
            cost_model(deployment),
            prompt + answer / 2,
            deployment.max_batched_tokens,
        )
    if result is None:
        raise CommandError(
            "--minutes: must have answers and 20 steps in at least 5 scrapes, got "
            f"{found.totals['steps']:.0f} steps in {len(found.periods)} scrapes"
        )
    if not LEAST_FACTOR <= result.factor <= MOST_FACTOR:
        rule = f"steps must take {LEAST_FACTOR:g} to {MOST_FACTOR:g} times the model's time"
        raise CommandError(f"--model, --accelerator: {rule}, got {result.factor:.3g} times")
    return result


def entry_of(
    result: Compared,
    found: Grown,
    deployment: Deployment,
    model: str,
    chips: int,
    minutes: float,
    end: float,
) -> Entry:
    """Return a file's entry; its factor is 1 where the difference is not beyond noise."""
    return Entry(
        model=model,
        accelerator=deployment.surroundings.accelerator.name,
        chips=chips,
        precision=precision_of(deployment.shape.bits),
        step_factor=round(result.factor, 4) if result.is_off else 1.0,
        step_factor_low=round(max(result.low, LEAST_FACTOR), 4),
        step_factor_high=round(min(result.high, MOST_FACTOR), 4),
        tpot_ms=round(1e3 * result.tpot_seconds, 3),
        batch=round(result.batch, 3),
        input_tokens=round(found.mean("prompt_tokens", "prompts") or 1, 1),
        output_tokens=round(found.mean("answer_tokens", "answers") or 1, 1),
        minutes=minutes,
        measured=datetime.fromtimestamp(end, UTC).isoformat(timespec="seconds"),
    )


def _known(file: Path | None) -> Calibration | None:
    if file is None or not file.exists():
        return None
    return calibration_of(str(file), "--write")


def _print(result: Compared, found: Grown, model: str, rung: str) -> None:
    table = Listing(
        "MODEL", "RUNG", figure("REPLICAS"), figure("BATCH"), figure("TPOT MS"), figure("MODEL MS"),
        figure("FACTOR"), figure("95 % INTERVAL"), figure("TTFT MS", spare=1),
        figure("QUEUE MS", spare=1), figure("CACHED", spare=1), "VERDICT",
    )  # fmt: skip
    first, queue = found.mean("first_seconds", "prompts"), found.mean("queue_seconds", "queued")
    table.add_row(
        model, rung, str(found.replicas), f"{result.batch:.1f}",
        f"{1e3 * result.tpot_seconds:.1f}", f"{1e3 * result.model_seconds:.1f}",
        f"{result.factor:.2f}", f"{result.low:.2f}-{result.high:.2f}",
        measured(None if first is None else 1e3 * first, ",.0f"),
        measured(None if queue is None else 1e3 * queue, ",.0f"),
        measured(found.mean("cached_tokens", "prompt_tokens"), ".0%"),
        "differs" if result.is_off else "agrees",
    )  # fmt: skip
    print_table(table)


def _plain(result: Compared, found: Grown, entry: Entry) -> dict[str, Any]:
    return {
        "factor": result.factor,
        "low": result.low,
        "high": result.high,
        "differs": result.is_off,
        "tpot_ms": 1e3 * result.tpot_seconds,
        "model_tpot_ms": 1e3 * result.model_seconds,
        "batch": result.batch,
        "periods": result.periods,
        "replicas": found.replicas,
        "totals": dict(found.totals),
        "entry": entry.model_dump(mode="json"),
    }
