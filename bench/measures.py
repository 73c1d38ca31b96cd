"""Measurements of `bench` with the engine, the twin and the Makefile."""

import dataclasses
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from bench import disagg
from bench.accuracy import accuracy_rows
from bench.cache import cache_rows
from bench.diffusion import diffusion_rows
from bench.engine_model import engine_rows
from bench.gateway import bench_gateway
from bench.kv_tiers import tier_rows
from bench.ladder import ladder_rows
from bench.latency.callout import callout_rows
from bench.picker import picker_rows
from bench.plan import plan_rows
from bench.preview import preview_rows, preview_seconds, serving_rows
from bench.replays import replay_rows
from bench.verdict import verdict_rows
from infra.reading.variants import stack_with_models
from scripts.shared.engine import Engine
from scripts.terminal.console import CommandError, console, one_line
from twin import daemon
from twin.cluster import lifecycle as clusters
from twin.cluster.base.context import ClusterContext, ClusterSpec
from twin.cluster.nodes.scale import check as check_scale
from twin.host.paths import REPOSITORY, TwinPaths

Row = dict[str, Any]
_SCALES = ((100, 200), (1000, 2000))
_GROWTH = (1, 10, 50)


def growth_rows(engine: Engine, runs: int) -> list[Row]:
    """Measure the preview time by number of models."""
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


def scale_rows(_engine: Engine, _runs: int) -> list[Row]:
    """Measure the time until nodes and pods are Ready on a control plane of the twin."""
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


def setup_rows(_engine: Engine, _runs: int) -> list[Row]:
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
                output = one_line(answer.stdout[-800:] + answer.stderr[-800:])
                raise CommandError(f"make {what}: {output}")
            rows.append({"make": what, "wall_s": round(time.monotonic() - begun, 1)})
            console.print(rows[-1])
    return rows


def _print_rows(found: Iterable[Row]) -> list[Row]:
    """Print each row when it is measured, and return all of them."""
    rows: list[Row] = []
    for row in found:
        rows.append(row)
        console.print(row)
    return rows


def gateway_rows(_engine: Engine, _runs: int) -> list[Row]:
    """Measure the gateway of the twin; bring the twin up if necessary."""
    paths = TwinPaths.default()
    is_ours = not clusters.folders(paths)
    if is_ours:
        _make("up")
    try:
        return _print_rows(bench_gateway(paths))
    finally:
        if is_ours:
            _make("down")


def _make(target: str) -> None:
    answer = subprocess.run(
        ["make", target], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    if answer.returncode:
        raise CommandError(
            f"make {target}: {one_line(answer.stdout[-800:] + answer.stderr[-800:])}"
        )


MEASURES: dict[str, Callable[[Engine, int], list[Row]]] = {
    "preview": preview_rows,
    "growth": growth_rows,
    "serving": serving_rows,
    "scale": scale_rows,
    "setup": setup_rows,
    "engine": lambda _engine, _runs: _print_rows(engine_rows()),
    "disagg": lambda _engine, _runs: _print_rows(disagg.rows()),
    "accuracy": lambda _engine, _runs: _print_rows(accuracy_rows()),
    "plan": lambda _engine, runs: plan_rows(runs),
    "replays": lambda _engine, _runs: _print_rows(replay_rows()),
    "picker": lambda _engine, _runs: list(picker_rows()),
    "diffusion": lambda _engine, _runs: diffusion_rows(),
    "ladder": lambda _engine, _runs: ladder_rows(REPOSITORY / "build" / "bench"),
    "gateway": gateway_rows,
    "callout": lambda _engine, _runs: callout_rows(),
    "kv-tiers": lambda _engine, _runs: _print_rows(tier_rows()),
    "cache": lambda _engine, _runs: cache_rows(),
    "verdict": lambda engine, runs: verdict_rows(partial(preview_seconds, engine), runs),
}
"""Function of each subject; it takes the engine and a number of runs."""
