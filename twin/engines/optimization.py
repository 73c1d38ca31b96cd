"""Python environments of the jobs that optimize and evaluate models."""

import os
from typing import Final

from twin.host.paths import REPOSITORY
from twin.toolchain.python_environments import PythonEnvironment, compile_bytecode

_IMAGES: Final = REPOSITORY / "workloads" / "images"

EVALUATION: Final = PythonEnvironment(
    word="evaluation",
    title="the evaluation harness",
    package="evaluation",
    version="0.4.13",
    lock=_IMAGES / "evaluation" / "requirements.lock",
    disk_gib=2,
    fetching="lm-eval 0.4.13 without PyTorch: 200 MB, half a minute",
    finish=lambda folder: compile_bytecode(folder, "lm_eval", "datasets", "pandas", "sklearn"),
)
"""The packages of the image `evaluation`."""

OPTIMIZATION: Final = PythonEnvironment(
    word="optimization",
    title="LLM Compressor with PEFT",
    package="optimization",
    version="0.14.0.1",
    lock=_IMAGES / "optimization" / "requirements.lock",
    disk_gib=14,
    fetching="llmcompressor 0.14.0.1, peft 0.21.2 and PyTorch: 6 GiB, a few minutes",
    finish=lambda folder: compile_bytecode(
        folder, "llmcompressor", "peft", "torch", "transformers"
    ),
)
"""The packages of the image `optimization`. PyPI's build of PyTorch runs on processors as well."""


def environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables of a job on this machine, without the hub.

    Args:
        extra: Additional variables.
    """
    kept = {key: value for key, value in os.environ.items() if key in ("HOME", "PATH", "TMPDIR")}
    return {
        **kept,
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",  # more threads than idle cores wait for each other
        "PYTHONPATH": str(REPOSITORY),
        "PYTHONWARNINGS": "ignore",
        "TOKENIZERS_PARALLELISM": "false",
        **(extra or {}),
    }
