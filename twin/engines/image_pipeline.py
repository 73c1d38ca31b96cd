"""Installation of the real image pipeline's packages."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from twin.host.paths import REPOSITORY
from twin.toolchain import ToolError
from twin.toolchain.python_environments import WORKLOADS_PATH, PythonEnvironment, compile_bytecode

DIFFUSION = PythonEnvironment(
    word="diffusion",
    title="the real image pipeline",
    package="diffusion",
    version="0.42.1",
    lock=REPOSITORY / "workloads" / "diffusion" / "requirements.lock",
    disk_gib=16,
    fetching="diffusers 0.42.1, PyTorch and JAX: 7 GiB, a few minutes",
    finish=lambda folder: compile_bytecode(
        folder, "diffusers", "jax", "numpy", "torch", "torchax", "transformers"
    ),
)
"""Index of CPU builds: the PyTorch build on PyPI is for GPUs, with gigabytes of unused files."""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables for the server on this machine, without network access.

    Args:
        extra: additional variables.
    """
    kept = {key: value for key, value in os.environ.items() if key in ("HOME", "PATH", "TMPDIR")}
    return {
        **kept,
        "DIFFUSERS_VERBOSITY": "error",  # it advises on a way of loading that is not ours
        "HF_HUB_OFFLINE": "1",
        "JAX_PLATFORMS": "cpu",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": WORKLOADS_PATH,
        "PYTHONWARNINGS": "ignore",
        **(extra or {}),
    }


def tiny_model() -> Path:
    """Return the folder of a tiny model, which is created if missing.

    Raises:
        ToolError: the model cannot be created.
    """
    folder = DIFFUSION.folder / "models" / "tiny"
    if (folder / ".complete").exists():
        return folder
    argv = [str(DIFFUSION.python()), "-m", "diffusion", "tiny", str(folder)]
    answer = subprocess.run(argv, capture_output=True, text=True, check=False, env=environment())
    if answer.returncode:
        raise ToolError(f"no tiny model: {answer.stderr.strip()[-400:]}")
    (folder / ".complete").write_text("")
    return folder
