"""Estimates of the TPU compiler for the image model at full width, by variant."""

import json
import subprocess
from typing import Any

from scripts.terminal.console import CommandError
from twin.engines.image_pipeline import DIFFUSION, environment
from twin.host.paths import REPOSITORY
from twin.toolchain import ToolError

_GAINS = ("blocks_gain", "rotation_bytes_saved", "rotation_gain", "whole_gain")


def diffusion_rows() -> list[dict[str, Any]]:
    """Compile the blocks of FLUX.1 for an absent v6e; return a row per variant, then the gains.

    Raises:
        CommandError: the image pipeline is not installed, or the compiler refused a variant.
    """
    try:
        python = str(DIFFUSION.python())
    except ToolError as error:
        raise CommandError(str(error)) from error
    answer = subprocess.run(
        [python, "-W", "ignore", "-m", "diffusion.xla.evidence"],
        env=environment(),
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise CommandError("compiling the image model failed; see above")
    found = json.loads(answer.stdout)
    gains = {name: round(found[name], 3) for name in _GAINS}
    return [*found["variants"], {"name": "gains", "blocks": found["blocks"], **gains}]
