"""Engines of a command line: a model with flags on chips."""

import contextlib
import io

from planner.fit.chips import ACCELERATORS, WORDS
from scripts.terminal.console import CommandError
from scripts.terminal.options import check_one
from simulator.engine.settings import PREFIX, Deployment, EngineError, deploy
from twin.engines.vllm_flags import parse


def deployment_of(model: str, accelerator: str, chips: int, flags: list[str]) -> Deployment:
    """Return an engine on chips, each of which has a share of the model unless a flag divides it.

    Raises:
        CommandError: The engine does not start with these flags.
    """
    labels = {word: label for label, word in WORDS.items()}
    label = labels.get(accelerator, accelerator)
    if label not in ACCELERATORS:
        check_one("--accelerator", accelerator, sorted(labels))
    environment = {PREFIX + "ACCELERATOR": label, PREFIX + "CHIPS": str(chips)}
    spread = [] if any("tensor-parallel" in one for one in flags) else [chips]
    arguments = [model, *flags, *(f"--tensor-parallel-size={count}" for count in spread)]
    output = io.StringIO()
    try:
        with contextlib.redirect_stderr(output):
            return deploy(parse(arguments), environment)
    except SystemExit as error:  # the engine's own flag parser, which also prints its usage
        lines = output.getvalue().splitlines()
        last = [*lines, str(error.code)][-2 if lines else -1]
        raise CommandError(f"--flag: {last.removeprefix('vllm serve: error: ')}") from None
    except (EngineError, ValueError) as error:
        reason = str(error).removeprefix("ValueError: ")
        raise CommandError(f"--flag: the engine does not start: {reason}") from error
