"""Starts a role: quantize, tune or evaluate."""

import json
import logging
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from workloads.common.logs import say, set_up
from workloads.transfer.errors import TransferError
from workloads.transfer.job import LogLines
from workloads.transfer.store import Store

from . import evaluate, quantize, tune
from .evaluate import NoScore
from .samples import SampleError
from .settings import (
    EvaluateSettings,
    SettingsError,
    read_evaluate,
    read_quantize,
    read_tune,
)
from .weights import WORKERS

_READERS: Final[dict[str, Callable[[str], Any]]] = {
    "evaluate": read_evaluate,
    "quantize": read_quantize,
    "tune": read_tune,
}


def main(
    arguments: Sequence[str],
    compress: quantize.Compress = quantize.compressed,
    train: tune.Train = tune.trained,
) -> int:
    """Run a job and return the exit code: 1 if it fails, 2 for settings that cannot be used.

    Args:
        arguments: Role, and the file with its settings.
        compress: Quantizes a model.
        train: Trains an adapter.
    """
    set_up(sys.stderr, logging.ERROR)
    try:
        if len(arguments) != 2 or arguments[0] not in _READERS:
            raise SettingsError(f"arguments: must be one of {', '.join(_READERS)}, and a file")
        role, file = arguments
        settings = _READERS[role](Path(file).read_text())
    except (SettingsError, OSError) as error:
        say(logging.ERROR, str(error))
        return 2
    try:
        _run(role, settings, compress, train)
    except (NoScore, SampleError, TransferError) as error:
        say(logging.ERROR, str(error))
        return 1
    return 0


def _run(role: str, settings: Any, compress: quantize.Compress, train: tune.Train) -> None:
    store = Store(None, endpoint=os.environ.get("STORAGE_EMULATOR_HOST"), workers=WORKERS)
    progress = LogLines()
    if role == "quantize":
        say(logging.INFO, f"{quantize.run(settings, store, progress, compress)}: complete")
    elif role == "tune":
        say(logging.INFO, f"{tune.run(settings, store, progress, train)}: complete")
    else:
        _evaluated(settings, store, progress)


def _evaluated(settings: EvaluateSettings, store: Store, progress: LogLines) -> None:
    result = evaluate.run(settings, store, progress)
    lost = {score.task for score in result.lost(settings.tolerance)}
    for score in result.scores:
        verdict = "worse" if score.task in lost else "not worse"
        say(
            logging.WARNING if score.task in lost else logging.INFO,
            f"{score.task}: {score.candidate:.4f}, baseline {score.baseline:.4f}: {verdict}",
            **json.loads(json.dumps(score.__dict__)),
        )
