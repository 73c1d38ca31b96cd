"""`gke-inference bench`: measurements, each written to build/bench/ with its command."""

import dataclasses
import json
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable
from datetime import date
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from infra.reading.growth import stack_with_models
from scripts import bench_confirm, bench_routing
from scripts.bench_diffusion import diffusion_rows
from scripts.bench_disagg import rows as bench_disagg_rows
from scripts.bench_gateway import bench_gateway
from scripts.bench_ladder import ladder_rows
from scripts.bench_plan import plan_rows
from scripts.bench_preview import bench_preview, preview_seconds
from scripts.bench_verdict import verdict_rows
from scripts.console import CommandError, Exit, console
from scripts.engine import Engine
from twin import daemon
from twin.cluster import lifecycle as clusters
from twin.cluster.base.context import ClusterContext, ClusterSpec
from twin.cluster.nodes.scale import check as check_scale
from twin.host.paths import REPOSITORY, TwinPaths

Row = dict[str, Any]
_SCALES = ((100, 200), (1000, 2000))
_GROWTH = (1, 10, 50)


class Subject(StrEnum):
    """What is measured."""

    PREVIEW = "preview"
    GROWTH = "growth"
    SCALE = "scale"
    SETUP = "setup"
    DISAGG = "disagg"
    PLAN = "plan"
    DIFFUSION = "diffusion"
    LADDER = "ladder"
    ROUTING = "routing"
    GATEWAY = "gateway"
    CONFIRM = "confirm"
    VERDICT = "verdict"


def bench_growth(engine: Engine, runs: int) -> list[Row]:
    """Measure how a preview grows with the number of models."""
    rows: list[Row] = []
    for models in _GROWTH:
        text = yaml.safe_dump({"config": stack_with_models(models)})
        seconds, resources = preview_seconds(engine, "growth", text, runs)
        per_resource = 1000 * seconds / resources
        rows.append(
            {
                "models": models,
                "resources": resources,
                "preview_s": round(seconds, 2),
                "ms_per_resource": round(per_resource, 1),
            }
        )
        console.print(rows[-1])
    return rows


def bench_scale(_engine: Engine, _runs: int) -> list[Row]:
    """Measure how long nodes and pods take to become Ready on a control plane of the twin."""
    rows: list[Row] = []
    zone = "us-central1-a"
    spec = ClusterSpec("bench", "us-central1", "scale", (zone,), False, "", "scale")
    with tempfile.TemporaryDirectory() as folder:
        paths = TwinPaths(Path(folder))
        daemon.prepare(paths)
        context = ClusterContext(paths, clusters.create(spec, paths).folder)
        try:
            for nodes, pods in _SCALES:
                rows.append(dataclasses.asdict(check_scale(context, nodes, pods)))
                console.print(rows[-1])
        finally:
            clusters.delete(spec.location, spec.name, paths)
    return rows


def bench_setup(_engine: Engine, _runs: int) -> list[Row]:
    """Measure the two commands of the README on a fresh clone with the tools cached."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "-q", str(REPOSITORY), str(clone)], check=True)
        inherited = {key: value for key, value in os.environ.items() if "PULUMI" not in key}
        inherited.pop("GKE_INFERENCE_TWIN_DIR", None)
        for what in ("up, fresh clone", "up, again", "down"):
            begun = time.monotonic()
            answer = subprocess.run(
                ["make", what.split(",")[0]],
                cwd=clone,
                env=inherited,
                capture_output=True,
                text=True,
                check=False,
            )
            if answer.returncode:
                raise CommandError(f"make {what}: {answer.stdout[-800:]}{answer.stderr[-800:]}")
            rows.append({"make": what, "wall_s": round(time.monotonic() - begun, 1)})
            console.print(rows[-1])
    return rows


def bench_disagg(_engine: Engine, _runs: int) -> list[Row]:
    """Simulate prompts apart from answers beside whole replicas: the same result each run."""
    rows = bench_disagg_rows()
    for row in rows:
        console.print(row)
    return rows


def bench_hop(_engine: Engine, _runs: int) -> list[Row]:
    """Measure the gateway of the twin that is up, or else of one brought up for it."""
    paths = TwinPaths.default()
    is_ours = not clusters.folders(paths)
    if is_ours:
        _make("up")
    try:
        rows = bench_gateway(paths)
    finally:
        if is_ours:
            _make("down")
    for row in rows:
        console.print(row)
    return rows


def _make(target: str) -> None:
    answer = subprocess.run(
        ["make", target], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if answer.returncode:
        raise CommandError(f"make {target}: {answer.stdout[-800:]}{answer.stderr[-800:]}")


_MEASURES: dict[Subject, Callable[[Engine, int], list[Row]]] = {
    Subject.PREVIEW: bench_preview,
    Subject.GROWTH: bench_growth,
    Subject.SCALE: bench_scale,
    Subject.SETUP: bench_setup,
    Subject.DISAGG: bench_disagg,
    Subject.PLAN: lambda _engine, runs: plan_rows(runs),
    Subject.DIFFUSION: lambda _engine, _runs: diffusion_rows(),
    Subject.LADDER: lambda _engine, _runs: ladder_rows(REPOSITORY / "build" / "bench"),
    Subject.GATEWAY: bench_hop,
    Subject.VERDICT: lambda engine, runs: verdict_rows(partial(preview_seconds, engine), runs),
}


def bench(
    subject: Annotated[list[Subject] | None, typer.Argument(help="Default: all.")] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs; the median counts.")] = 3,
    quick: Annotated[
        bool, typer.Option("--quick", help="routing: one seed, short stages.")
    ] = False,
    workload: Annotated[list[str] | None, typer.Option(help="routing: only these.")] = None,
    policy: Annotated[list[str] | None, typer.Option(help="routing: only these.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="routing: runs at a time.")] = 2,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="routing: draw docs/images.")
    ] = False,
) -> None:
    """Measure and write build/bench/SUBJECT.json; exit code 1 where a bound does not hold."""
    holds, failed = True, list[str]()
    for one in subject or list(Subject):
        console.print(f"[bold]{one.value}[/bold]")
        try:
            if one is Subject.ROUTING:
                holds &= bench_routing.measure(
                    is_quick=quick, chosen=workload, names=policy, workers=workers, draws=pictures
                )
            elif one is Subject.CONFIRM:
                holds &= bench_confirm.measure()
            else:
                _write(one, runs)
        # the others are measured all the same
        except (CommandError, OSError, subprocess.SubprocessError) as error:
            console.print(f"error: {one.value}: {error}", markup=False)
            failed.append(one.value)
    if failed:
        raise CommandError(f"not measured: {', '.join(failed)}")
    if not holds:
        raise typer.Exit(Exit.NO)


def _write(subject: Subject, runs: int) -> None:
    """Measure a subject and write its file."""
    folder = REPOSITORY / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    result = {
        "date": date.today().isoformat(),
        "command": f"gke-inference bench {subject.value} --runs {runs}",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python "
        f"{platform.python_version()}",
        "load_before": round(os.getloadavg()[0], 1),
        "rows": _MEASURES[subject](Engine(TwinPaths.default()), runs),
    }
    (folder / f"{subject.value}.json").write_text(json.dumps(result, indent=1) + "\n")
