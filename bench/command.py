"""`bench`: measurements, written to build/bench/ with their commands."""

import json
import os
import platform
import subprocess
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from bench import accuracy as bench_accuracy
from bench import bounds
from bench import confirm as bench_confirm
from bench import fairness as bench_fairness
from bench import routing as bench_routing
from bench.measures import MEASURES
from scripts.shared.engine import Engine
from scripts.terminal.console import CommandError, console
from scripts.terminal.exit_codes import ExitCode
from twin.host.paths import REPOSITORY, TwinPaths

_RUNS, _WORKERS = 3, 2
RunsOption = Annotated[int, typer.Option(min=1, help="Number of runs; the median counts.")]

bench = typer.Typer(
    name="bench",
    epilog="Exit codes: 0 success, 1 a bound is missed, 2 error, 130 interrupted.",
    context_settings={"help_option_names": ["--help", "-h"]},
    add_completion=False,
    pretty_exceptions_enable=False,
)


@bench.callback()
def bench_group() -> None:
    """Measure a subject and write build/bench/SUBJECT.json. Exits 1 if a bound is missed."""


@bench.command("all")
def measure_all(runs: RunsOption = _RUNS) -> None:
    """Measure every subject; a failure does not stop the others."""
    is_met, failed = True, list[str]()
    for subject, measure in _every(runs).items():
        console.print(f"[bold]{subject}[/bold]")
        try:
            is_met &= _measured(subject, measure)
        except CommandError as error:
            console.print(f"error: {error}", markup=False)
            failed.append(subject)
    if failed:
        raise CommandError(f"not measured: {', '.join(failed)}")
    _exit_unless(is_met)


@bench.command()
def preview(runs: RunsOption = _RUNS) -> None:
    """Measure the preview of each stack with policies, and the engine's floor."""
    _run("preview", runs)


@bench.command()
def growth(runs: RunsOption = _RUNS) -> None:
    """Measure the preview of one region with 1, 10 and 50 models."""
    _run("growth", runs)


@bench.command()
def serving(runs: RunsOption = _RUNS) -> None:
    """Measure the preview of a serving stack with five models."""
    _run("serving", runs)


@bench.command()
def verdict(runs: RunsOption = _RUNS) -> None:
    """Measure the verdict on a change of one model, and a preview of the same stack."""
    _run("verdict", runs)


@bench.command()
def plan(runs: RunsOption = _RUNS) -> None:
    """Measure the planning of three models on all hardware."""
    _run("plan", runs)


@bench.command()
def replays() -> None:
    """Measure the speed of the compiled engines, in requests per second of processor time."""
    _run("replays")


@bench.command()
def accuracy(
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            help="Also fit the constants again, and write them and the page of the accuracy.",
        ),
    ] = False,
) -> None:
    """Measure the errors of the planner on measurements whose models it has not seen."""
    if update:
        bench_accuracy.update()
    is_met = _measured("accuracy", lambda: _write("accuracy", _RUNS))
    if update:
        file = REPOSITORY / "build" / "bench" / "accuracy.json"
        bench_accuracy.write_page(json.loads(file.read_text())["rows"])
    _exit_unless(is_met)


@bench.command()
def scale() -> None:
    """Measure the time until nodes and pods are Ready on the twin's control plane."""
    _run("scale")


@bench.command()
def setup() -> None:
    """Measure the README's commands on a fresh clone, with the tools cached."""
    _run("setup")


@bench.command()
def gateway() -> None:
    """Measure the latency that the gateway adds, and the delay of a route change."""
    _run("gateway")


@bench.command()
def cache(
    questions: Annotated[
        Path | None,
        typer.Option(
            help="YAML list of your own questions: `asked`, wordings with the same answer, and"
            " `unlike`, questions that sound alike and have other answers."
        ),
    ] = None,
    embeddings: Annotated[
        str, typer.Option(help="URL of a server with /v1/embeddings. Default: WordLlama.")
    ] = "",
    model: Annotated[str, typer.Option(help="Model of --embeddings.")] = "",
) -> None:
    """Measure how often the answer cache returns a right and a wrong answer, by threshold."""
    if bool(embeddings) != bool(model):
        raise CommandError("--embeddings: must be given together with --model")
    if questions is None and not embeddings:
        _run("cache")
        return
    # programs of the gateway and HTTP clients take seconds to load; `--help` needs neither
    from bench.cache import QUESTIONS, Embeddings, cache_rows  # noqa: PLC0415

    own = Embeddings(embeddings.rstrip("/"), model) if embeddings else None
    rows = cache_rows(questions or QUESTIONS, own)
    file = REPOSITORY / "build" / "bench" / "cache-own.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(rows, indent=1) + "\n")
    console.print(f"wrote {file.relative_to(REPOSITORY)}")


@bench.command()
def callout() -> None:
    """Measure the latency that the callout adds at the gateway, at 200 requests per second."""
    _run("callout")


@bench.command()
def engine() -> None:
    """Compare the engine model with runs of real engines."""
    _run("engine")


@bench.command()
def disagg() -> None:
    """Simulate disaggregated serving and compare it with whole replicas."""
    _run("disagg")


@bench.command("kv-tiers")
def kv_tiers() -> None:
    """Simulate tiers of KV cache on conversations and long documents."""
    _run("kv-tiers")


@bench.command()
def ladder() -> None:
    """Replay the published request rates of llm-d."""
    _run("ladder")


@bench.command()
def diffusion() -> None:
    """Compile the image model at full width and record the compiler's estimates."""
    _run("diffusion")


@bench.command()
def confirm() -> None:
    """Measure one figure of the routing laboratory with inference-perf in real time."""
    _exit_unless(_measured("confirm", bench_confirm.measure))


@bench.command()
def picker() -> None:
    """Compare the modeled picker with the real one at a few points of the laboratory."""
    _run("picker")


@bench.command()
def fairness() -> None:
    """Measure how long a client waits when another one sends ten times its share."""
    _exit_unless(_measured("fairness", bench_fairness.measure))


@bench.command()
def routing(
    quick: Annotated[bool, typer.Option("--quick", help="Use one seed and short stages.")] = False,
    workload: Annotated[
        list[str] | None, typer.Option(help="Only this workload; repeat for more. Default: all.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Only this policy, without bounds; repeat for more. Default: all."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Number of parallel runs.")] = _WORKERS,
    plots: Annotated[
        bool, typer.Option("--plots", help="Also update docs/routing-results.md and its plots.")
    ] = False,
) -> None:
    """Compare routing policies on the same replicas and requests."""

    def measure() -> bool:
        return bench_routing.measure(
            is_quick=quick, chosen=workload, names=policy, workers=workers, draws=plots
        )

    _exit_unless(_measured("routing", measure))


def _every(runs: int) -> dict[str, Callable[[], bool]]:
    """Return the measurement of each subject, which returns whether every bound is met."""

    def plain(subject: str) -> Callable[[], bool]:
        return lambda: _write(subject, runs)

    every = {subject: plain(subject) for subject in MEASURES}
    every["routing"] = lambda: bench_routing.measure(
        is_quick=False, chosen=None, names=None, workers=_WORKERS, draws=False
    )
    every["confirm"] = bench_confirm.measure
    every["fairness"] = bench_fairness.measure
    return every


def _run(subject: str, runs: int = _RUNS) -> None:
    _exit_unless(_measured(subject, lambda: _write(subject, runs)))


def _measured(subject: str, measure: Callable[[], bool]) -> bool:
    """Return whether the bounds of a subject are met.

    Raises:
        CommandError: The subject cannot be measured.
    """
    try:
        return measure()
    except (OSError, subprocess.SubprocessError) as error:
        raise CommandError(f"{subject}: {error}") from error


def _exit_unless(is_met: bool) -> None:
    if not is_met:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _write(subject: str, runs: int) -> bool:
    """Measure a subject, write its file, and return whether its bounds are met."""
    folder = REPOSITORY / "build" / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    load = round(os.getloadavg()[0], 1)
    rows = MEASURES[subject](Engine(TwinPaths.default()), runs)
    checks = bounds.check(subject, rows)
    result = {
        "date": date.today().isoformat(),
        "command": f"bench {subject}",
        "runs": runs,
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python "
        f"{platform.python_version()}",
        "load_before": load,
        "checks": [one.as_dict() for one in checks],
        "rows": rows,
    }
    (folder / f"{subject}.json").write_text(json.dumps(result, indent=1) + "\n")
    for one in checks:
        verb = "meets" if one.passes else "misses"
        found = "not measured" if one.value is None else f"{one.value:g} {verb}"
        console.print(f"{one.name}: {found}, bound {one.at_most:g}", markup=False)
    return all(one.passes for one in checks)
