"""Python environments beside the checkout's own: large packages that only some things need.

Each is installed once a user, from a lock with hashes, and every checkout finds it in the cache.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from twin.host.paths import REPOSITORY
from twin.toolchain import ToolError, cache_root

Progress = Callable[[str], None]
"""Told in words what is going on."""


def _nothing(folder: Path) -> None:
    """Finish nothing."""


@dataclass(frozen=True)
class PythonEnvironment:
    """One environment: what is in it, and how it is asked for."""

    word: str
    """Of `gke-inference tools --with WORD`."""
    title: str
    """What messages call it, such as `the real vLLM`."""
    package: str
    """The distribution that it is named after."""
    version: str
    """Of the distribution."""
    lock: Path
    """Requirements with hashes."""
    disk_gib: int
    """Free disk needed to install it, with what uv keeps or unpacks."""
    fetching: str
    """What is fetched, and how long that takes."""
    finish: Callable[[Path], None] = _nothing
    """Called with the environment's folder when its packages are in place."""

    @property
    def folder(self) -> Path:
        """Where the environment is, whether or not it is there.

        It is named after the release and what the lock holds: a new lock makes a
        new one.
        """
        digest = hashlib.sha256(self.lock.read_bytes()).hexdigest()[:8]
        return cache_root().parent / "engines" / f"{self.package}-{self.version}-{digest}"

    @property
    def is_installed(self) -> bool:
        """Whether its programs can be started."""
        return (self.folder / ".complete").exists()

    @property
    def hint(self) -> str:
        """Why something that needs it does not run, and the command that helps."""
        return f"{self.title} is not installed: run `gke-inference tools --with {self.word}`"

    def python(self) -> Path:
        """Return its interpreter.

        Raises:
            ToolError: it is not installed; the message names the command.
        """
        if not self.is_installed:
            raise ToolError(self.hint)
        return self.folder / "bin" / "python"

    def packages(self) -> Path:
        """Return the folder of its packages."""
        return packages_of(self.folder)

    def install(self, announce: Progress) -> Path:
        """Install it where it is missing, and return its folder.

        An interrupted installation is begun anew; what was downloaded is not fetched again.

        Raises:
            ToolError: the disk is too full, or an index has not got what the lock names.
        """
        folder = self.folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / f".lock-{self.word}").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two checkouts do not install at once
            if self.is_installed:
                return folder
            self._check_room(folder.parent)
            shutil.rmtree(folder, ignore_errors=True)
            announce("making an environment")
            self._run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
            announce(f"fetching {self.fetching}")
            interpreter = str(folder / "bin" / "python")
            uv = [sys.executable, "-m", "uv", "pip", "sync", "--python", interpreter]
            self._run([*uv, "--require-hashes", str(self.lock)])
            announce("compiling bytecode")
            self.finish(folder)
            (folder / ".complete").write_text(self.version + "\n")
        return folder

    def _check_room(self, folder: Path) -> None:
        free = shutil.disk_usage(folder).free / 2**30
        if free < self.disk_gib:
            raise ToolError(
                f"{self.title} needs {self.disk_gib} GiB of disk, {folder} has {free:.1f} GiB"
            )

    def _run(self, argv: list[str]) -> None:
        answer = subprocess.run(argv, capture_output=True, text=True, check=False)
        if answer.returncode:
            last = answer.stderr.strip().splitlines()[-12:]
            raise ToolError(f"{self.title} cannot be installed:\n" + "\n".join(last))


def packages_of(folder: Path) -> Path:
    """Return the folder of an environment's packages."""
    return next((folder / "lib").glob("python3.*")) / "site-packages"


def compile_bytecode(folder: Path, *packages: str) -> None:
    """Compile the bytecode of some packages of an environment: first starts are slow without."""
    interpreter = str(folder / "bin" / "python")
    paths = [str(packages_of(folder) / package) for package in packages]
    # some files of large packages are templates that do not compile: that is no failure
    subprocess.run(
        [interpreter, "-m", "compileall", "-q", *paths], capture_output=True, check=False
    )


XLA = PythonEnvironment(
    word="xla",
    title="JAX with the TPU compiler",
    package="xla",
    version="0.10.2",
    lock=REPOSITORY / "workloads" / "kernels" / "requirements.lock",
    disk_gib=4,
    fetching="jax 0.10.2 and libtpu: 1.3 GB, about half a minute",
    finish=lambda folder: compile_bytecode(folder, "jax", "numpy", "hypothesis"),
)
"""JAX and libtpu: it compiles for TPUs, and runs kernels on this machine's processors."""

GUARDRAILS = PythonEnvironment(
    word="guardrails",
    title="NeMo Guardrails",
    package="guardrails",
    version="0.24.1",
    lock=REPOSITORY / "workloads" / "images" / "guardrails" / "requirements.lock",
    disk_gib=1,
    fetching="nemoguardrails 0.24.1: 230 MiB, a few seconds",
    finish=lambda folder: compile_bytecode(folder, "nemoguardrails", "onnxruntime"),
)
"""The packages of the image `guardrails`, which the twin runs in an environment of its own."""


def guardrails_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables under which the guard runs on this machine, with no access outside.

    Args:
        extra: more of them.
    """
    kept = {key: value for key, value in os.environ.items() if key in ("HOME", "PATH", "TMPDIR")}
    return {
        **kept,
        "NEMO_GUARDRAILS_NO_USAGE_STATS": "1",  # it reports to its maker otherwise
        "PYTHONPATH": str(REPOSITORY / "workloads"),
        **(extra or {}),
    }


def xla_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables under which JAX compiles for TPUs on a machine that has none.

    Args:
        extra: more of them.
    """
    kept = {key: value for key, value in os.environ.items() if key in ("HOME", "PATH", "TMPDIR")}
    return {
        **kept,
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": str(REPOSITORY / "workloads"),
        **(extra or {}),
    }
