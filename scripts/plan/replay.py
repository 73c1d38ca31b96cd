"""`gke-inference replay`: simulates replicas on a trace, without a cluster."""

import errno
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from gke_inference.catalogue.accelerators import accelerator_names
from gke_inference.catalogue.problems import suggest
from infra.stack.problems import unread
from scripts.shared.calibration_files import (
    CalibrationOption,
    calibration_of,
    entry_of,
    report,
)
from scripts.shared.deployments import deployment_of
from scripts.terminal.console import CommandError, console, errors
from scripts.terminal.options import check_one, check_positive
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.tables import Listing, figure, measured, print_table
from simulator.engine import compiled
from simulator.engine.replay import (
    HTTP_SECONDS,
    Cluster,
    Replay,
    TraceRequest,
    least_request,
    prefix_affine,
    round_robin,
    uniform,
)
from simulator.engine.settings import Deployment
from simulator.replays.modelled_picker import ModelledPicker
from simulator.replays.picker_configs import Facts, shipped
from simulator.replays.planning import picked, read_trace, report_of, requests_of
from simulator.replays.workloads import MODEL, StageSpec, workloads
from simulator.traffic import Slo

Row = dict[str, Any]
_ROUTES = {
    "least-request": least_request,
    "prefix-affine": prefix_affine,
    "random": uniform,
    "round-robin": round_robin,
}
_PICKER = "picker"
_SECONDS = 30.0


def replay(
    trace: Annotated[
        str,
        typer.Argument(
            metavar="TRACE", help="Workload of the routing laboratory, or a file of JSON lines."
        ),
    ],
    model: Annotated[str, typer.Option(help="Model ID, as passed to the engine.")],
    accelerator: Annotated[str, typer.Option(help="Accelerator, such as nvidia-l4.")],
    chips: Annotated[int, typer.Option(min=1, help="Chips per replica.")] = 1,
    replicas: Annotated[
        list[int] | None,
        typer.Option(min=1, help="Number of replicas; repeat to compare several. Default: 1."),
    ] = None,
    rate: Annotated[
        list[float] | None,
        typer.Option(help="Requests per second of a workload; repeat to compare several."),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=1, help="Duration of a workload, in seconds.")
    ] = _SECONDS,
    seed: Annotated[
        int, typer.Option(help="Random seed for the workload and for ties in routing.")
    ] = 1,
    routing: Annotated[
        str,
        typer.Option(
            help="Routing policy: picker, least-request, prefix-affine, random, round-robin."
        ),
    ] = _PICKER,
    flag: Annotated[
        list[str] | None,
        typer.Option(help="Engine flag, such as --flag=--max-model-len=8192; repeat for more."),
    ] = None,
    ttft_ms: Annotated[
        float, typer.Option(help="SLO for the time to first token, in milliseconds.")
    ] = 2000.0,
    tpot_ms: Annotated[
        float, typer.Option(help="SLO for the time per output token, in milliseconds.")
    ] = 100.0,
    calibration: CalibrationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Simulate replicas on a trace, faster than real time, to find out how many you need."""
    check_one("--routing", routing, sorted([*_ROUTES, _PICKER]))
    check_one("--accelerator", accelerator, accelerator_names())
    if chips & (chips - 1):
        raise CommandError(f"--chips: must be a power of 2, got {chips}")
    if not model:
        raise CommandError("--model: must be a model ID, got ''")
    for each in rate or ():
        check_positive("--rate", each)
    check_positive("--ttft-ms", ttft_ms)
    check_positive("--tpot-ms", tpot_ms)
    asked = _requests(trace, rate, seconds, seed)
    flags = [*(flag or [])]
    if trace in workloads():
        flags += _adapter_flags(trace, flags)
    deployment = deployment_of(model, accelerator, chips, flags)
    if calibration is not None:
        deployment = _calibrated(deployment, calibration, model, chips)
    slo = Slo(ttft_ms, tpot_ms)
    rows: list[Row] = []
    for offered, requests in asked:
        for count in replicas or [1]:
            row = _row(_played(deployment, count, routing, seed, requests), slo)
            rows.append({"replicas": count, "rate_qps": offered, "routing": routing, **row})
    if output.is_data:
        print_data(rows, output)
        return
    _print(rows, f"{trace}: {model} on {chips} x {accelerator} per replica")


def _requests(
    trace: str, rates: list[float] | None, seconds: float, seed: int
) -> list[tuple[float, list[TraceRequest]]]:
    """Return pairs of rate and requests.

    Raises:
        CommandError: The workload or file does not exist, or the file is not a trace.
    """
    workload = workloads().get(trace)
    if workload is not None:
        wanted = rates or [stage.rate for stage in workload.stages if not stage.is_warm_up]
        try:
            made = [workload.make(StageSpec(rate, seconds), seed) for rate in wanted]
        except ValueError as error:
            raise CommandError(str(error)) from error
        return [(r, requests_of(one, MODEL)) for r, one in zip(wanted, made, strict=True)]
    if rates:
        raise CommandError(
            "--rate: must be omitted for a file, which has the times of its requests"
        )
    try:
        found = read_trace(Path(trace).read_text())
    except OSError as error:
        if "/" in trace or (trace and error.errno != errno.ENOENT):
            raise CommandError(
                f"TRACE: must be a readable file, got {trace!r}: {unread(error)}"
            ) from None
        names = ", ".join(workloads())
        hint = suggest(trace, workloads())
        raise CommandError(
            f"TRACE: must be a file or one of {names}, got {trace!r}{hint}"
        ) from None
    except ValueError as error:
        raise CommandError(f"{trace}: {error}") from error
    length = max(request.arrival for request in found)
    return [(round(len(found) / length, 2) if length else float(len(found)), found)]


def _adapter_flags(trace: str, given: list[str]) -> list[str]:
    """Return the adapter flags of the workload's own engines, unless the user gives them."""
    if not workloads()[trace].facts.has_adapters or "--enable-lora" in given:
        return []
    flags = workloads()[trace].replicas[0].flags
    return [*flags[flags.index("--enable-lora") :]]


def _cluster(deployments: list[Deployment], routing: str, seed: int) -> Cluster:
    if routing == _PICKER:
        return picked(deployments, _picker_config(deployments[0]), seed, HTTP_SECONDS)
    if routing == "random":
        return Cluster(deployments, uniform(seed), http_seconds=HTTP_SECONDS)
    return Cluster(deployments, _ROUTES[routing](), http_seconds=HTTP_SECONDS)


def _picker_config(deployment: Deployment) -> str:
    return shipped(Facts(has_adapters=deployment.flags.enable_lora))


def _played(
    deployment: Deployment,
    count: int,
    routing: str,
    seed: int,
    requests: list[TraceRequest],
) -> Replay:
    """Return the outcomes of a trace, from the compiled engines where they can play it."""
    adapters = {None, *deployment.adapters}
    is_plain = all(each.adapter in adapters and not each.priority for each in requests)
    if is_plain and compiled.supports(deployment) and compiled.is_built():
        if routing == _PICKER:
            picker = ModelledPicker(_picker_config(deployment), seed).settings
            return compiled.replay(requests, deployment, count, picker, HTTP_SECONDS)
        if routing in compiled.ROUTES:
            return compiled.replay(requests, deployment, count, routing, HTTP_SECONDS, seed)
    return _cluster([deployment] * count, routing, seed).play(requests)


def _calibrated(deployment: Deployment, file: str, model: str, chips: int) -> Deployment:
    """Return an engine with the step times of a calibration, and report it on standard error."""
    entry = entry_of(calibration_of(file), deployment)
    if entry is None:
        label = deployment.surroundings.accelerator.name
        errors.print(f"not calibrated: {file} has no {model} on {chips} x {label}", soft_wrap=True)
        return deployment
    report(entry)
    return replace(deployment, step_factor=entry.step_factor)


def _row(result: Replay, slo: Slo) -> Row:
    summary, hits = report_of(result).summary(slo), result.prefix_hit_ratio
    return {
        "requests": summary.sent,
        "answered": summary.answered,
        "throughput_tok_s": summary.throughput_tok_s,
        "ttft_ms": None if summary.ttft_ms is None else asdict(summary.ttft_ms),
        "tpot_ms": None if summary.tpot_ms is None else asdict(summary.tpot_ms),
        "goodput_share": summary.goodput_share,
        "prefix_hit_rate": None if hits is None else round(hits, 4),
        "preemptions": sum(outcome.preemptions for outcome in result.outcomes),
    }


def _print(rows: list[Row], title: str) -> None:
    table = Listing(
        figure("REPLICAS"), figure("QPS"), figure("TOK/S"), figure("TTFT P50"), figure("P95"),
        figure("P99 MS"), figure("TPOT P50"), figure("P99 MS"), figure("IN SLO"),
        figure("HITS", spare=1), figure("PREEMPTED", spare=1), figure("UNANSWERED"), title=title,
    )  # fmt: skip
    for row in rows:
        ttft: Row = row["ttft_ms"] or {}
        tpot: Row = row["tpot_ms"] or {}
        table.add_row(
            str(row["replicas"]), f"{row['rate_qps']:g}", f"{row['throughput_tok_s']:,.0f}",
            *(measured(ttft.get(share), ",.0f") for share in ("p50", "p95", "p99")),
            *(measured(tpot.get(share), ".0f") for share in ("p50", "p99")),
            f"{row['goodput_share']:.1%}",
            measured(row["prefix_hit_rate"], ".0%"), str(row["preemptions"]),
            str(row["requests"] - row["answered"]),
        )  # fmt: skip
    print_table(table)
    console.print("The engines are simulated; docs/engine-model.md has the accuracy.")
