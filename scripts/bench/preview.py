"""How long a preview takes: of each stack, with the patches of the SDKs and without them."""

import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.bench.engine_floor import floor_preview_seconds
from scripts.shared.engine import Engine, stack_names
from scripts.shared.platform_state import seed_platform
from scripts.shared.scratch_project import backend, scratch_project
from scripts.terminal.console import CommandError, console, one_line
from twin.host.paths import REPOSITORY
from twin.pulumi.speedups import OFF

Timing = tuple[float, int]
"""Wall seconds of a preview, and the number of its resources."""
_WITH, _WITHOUT = {OFF: ""}, {OFF: "1"}


def preview_rows(engine: Engine, runs: int) -> list[dict[str, Any]]:
    """Measure the preview of each stack with policies beside the engine's floor.

    Raises:
        CommandError: A preview failed.
    """
    rows: list[dict[str, Any]] = []
    for stack in stack_names():
        text = (REPOSITORY / "stacks" / f"Pulumi.{stack}.yaml").read_text()
        (seconds, resources), (without, _) = previews(engine, stack, text, runs, _WITH, _WITHOUT)
        floor = statistics.median(floor_preview_seconds(engine, resources, runs))
        rows.append(
            {
                "stack": stack,
                "resources": resources,
                "preview_s": round(seconds, 2),
                "without_speedups_s": round(without, 2),
                "without_ratio": round(without / seconds, 2),
                "floor_s": round(floor, 2),
                "ratio": round(seconds / floor, 2),
            }
        )
        console.print(rows[-1])
    return rows


def preview_seconds(engine: Engine, stack: str, text: str, runs: int) -> Timing:
    """Return the median wall time and the number of resources of a stack's first preview.

    Raises:
        CommandError: A preview failed.
    """
    return previews(engine, stack, text, runs, _WITH)[0]


def previews(
    engine: Engine, stack: str, text: str, runs: int, *variants: Mapping[str, str]
) -> list[Timing]:
    """Return the median wall time and the number of resources for each variant of a preview.

    Args:
        engine: with the twin's environment.
        stack: name of the stack.
        text: content of its file.
        runs: previews of each variant; the variants take turns, so that other work slows all.
        variants: what each of them adds to the environment.

    Raises:
        CommandError: A preview failed.
    """
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        project = scratch_project(folder, stack, text)
        made = engine.run(
            "stack", "init", stack, capture=True, environment=backend(folder), project=project
        )
        if made.returncode:
            raise CommandError(one_line(made.stderr))
        if stack in stack_names():
            seed_platform(folder / "state", stack)

        def timed(variant: Mapping[str, str]) -> Timing:
            return _timed(engine, stack, project, {**backend(folder), **variant})

        for variant in variants:
            timed(variant)  # what is read for the first time is cached
        rounds = [[timed(variant) for variant in variants] for _ in range(runs)]
    return [
        (statistics.median(seconds for seconds, _ in timings), timings[0][1])
        for timings in zip(*rounds, strict=True)
    ]


def _timed(engine: Engine, stack: str, project: Path, environment: Mapping[str, str]) -> Timing:
    policies = str(REPOSITORY / "policies")
    begun = time.monotonic()
    answer = engine.run(
        "preview", "-s", stack, "--policy-pack", policies, "--non-interactive", "--json",
        capture=True, environment=environment, project=project,
    )  # fmt: skip
    seconds = time.monotonic() - begun
    if answer.returncode:
        raise CommandError(f"{stack}: {one_line(answer.stderr[-800:] + answer.stdout[-800:])}")
    return seconds, sum(json.loads(answer.stdout)["changeSummary"].values())
