"""Preview times of each stack, with and without the patches of the SDKs."""

import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from bench.engine_floor import floor_preview_seconds
from infra.reading.load import PROJECT, STACKS, stack_names
from scripts.shared.engine import Engine
from scripts.shared.platform_state import seed_platform
from scripts.shared.scratch_project import backend, scratch_project
from scripts.terminal.console import CommandError, console, one_line
from twin.host.paths import REPOSITORY
from twin.pulumi.speedups import OFF

Timing = tuple[float, int]
"""Wall seconds of a preview, and the number of its resources."""
_TEAMS = REPOSITORY / "docs" / "examples" / "teams"
_SERVED = 5
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


def serving_rows(engine: Engine, runs: int) -> list[dict[str, Any]]:
    """Measure the preview of a serving stack, whose platform is another stack.

    The stack is that of a team of the example `teams`, with five models instead of one.

    Raises:
        CommandError: A preview failed.
    """
    with tempfile.TemporaryDirectory() as temporary:
        stacks = Path(temporary)
        platform, serving = _example("shared"), _example("search")
        platform["teams"]["search"]["chips"]["gpu"] = 2 * _SERVED
        models: dict[str, Any] = serving["models"]
        (first,) = models.values()
        models |= {f"llama-{at}": {**first} for at in range(2, _SERVED + 1)}
        (stacks / "Pulumi.shared.yaml").write_text(_stack_file(platform))
        text = _stack_file(serving)
        (stacks / "Pulumi.search.yaml").write_text(text)
        ((seconds, resources),) = previews(engine, "search", text, runs, _WITH, stacks=stacks)
    row = {"models": len(models), "resources": resources, "preview_s": round(seconds, 2)}
    console.print(row)
    return [row]


def _example(name: str) -> dict[str, Any]:
    document = yaml.safe_load((_TEAMS / f"Pulumi.{name}.yaml").read_text())
    return document["config"][f"{PROJECT}:platform"]


def _stack_file(platform: dict[str, Any]) -> str:
    return yaml.safe_dump({"config": {f"{PROJECT}:platform": platform}})


def preview_seconds(engine: Engine, stack: str, text: str, runs: int) -> Timing:
    """Return the median wall time and the number of resources of a stack's first preview.

    Raises:
        CommandError: A preview failed.
    """
    return previews(engine, stack, text, runs, _WITH)[0]


def previews(
    engine: Engine,
    stack: str,
    text: str,
    runs: int,
    *variants: Mapping[str, str],
    stacks: Path = STACKS,
) -> list[Timing]:
    """Return the median wall time and the number of resources for each variant of a preview.

    Args:
        engine: Pulumi CLI with the twin's environment.
        stack: Name of the stack.
        text: Content of its file.
        runs: Number of previews per variant; variants alternate, so that other load affects all.
        variants: Additional environment variables of each variant.
        stacks: Folder of the stack's platform, if it is a serving stack.

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
        if stack in stack_names(stacks):
            seed_platform(folder / "state", stack, stacks)

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
