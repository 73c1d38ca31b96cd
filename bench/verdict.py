"""The time of a verdict, compared with a plain preview of the same stack."""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from infra.reading.load import KEY, PROJECT, EngineLoader
from scripts.shared.scratch_project import scratch_checkout
from scripts.terminal.console import CommandError, console
from scripts.verdicts.checkouts import Checkout
from scripts.verdicts.runs import runner
from scripts.verdicts.verdict import StackVerdict, of_stack
from twin.host.paths import REPOSITORY

Preview = Callable[[str, str, int], tuple[float, int]]
"""Takes stack, its text and runs; returns the median seconds of a preview and its resources."""
_STACKS = ("local", "prod")


def changed(text: str) -> str:
    """Return a stack whose first model has half the context, which restarts its pods."""
    document: Any = yaml.load(text, Loader=EngineLoader)  # noqa: S506 - derives from SafeLoader
    model: Any = next(iter(document["config"][f"{PROJECT}:{KEY}"]["models"].values()))
    model["context"] //= 2
    return json.dumps(document)


def verdict_rows(preview: Preview, runs: int) -> list[dict[str, Any]]:
    """Measure the complete verdict command on a change of one model.

    Raises:
        CommandError: a preview or a verdict failed.
    """
    rows: list[dict[str, Any]] = []
    for stack in _STACKS:
        text = (REPOSITORY / "stacks" / f"Pulumi.{stack}.yaml").read_text()
        plain, resources = preview(stack, text, runs)
        with tempfile.TemporaryDirectory() as folder:
            head = Checkout("head", scratch_checkout(Path(folder), stack, changed(text)))
            taken, found = zip(*(_timed(stack, head) for _ in range(runs)), strict=True)
        seconds = statistics.median(taken)
        rows.append(
            {
                "stack": stack,
                "resources": resources,
                "changes": len(found[0].changes),
                "verdict_s": round(seconds, 1),
                "preview_s": round(plain, 1),
                "ratio": round(seconds / plain, 2),
            }
        )
        console.print(rows[-1])
    return rows


def _timed(stack: str, head: Checkout) -> tuple[float, StackVerdict]:
    begun = time.monotonic()
    with runner() as cli:
        found = of_stack(cli, stack, Checkout("base", REPOSITORY), head)
    if found.error or not found.moves:
        raise CommandError(f"{stack}: {found.error or 'the change moved no pods'}")
    return time.monotonic() - begun, found
