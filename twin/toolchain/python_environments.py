"""Separate Python environments for large packages that only some features need.

Each is installed once per user, from a lock with hashes, and shared by all checkouts.
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
"""Called with messages about the progress."""


def _nothing(folder: Path) -> None:
    """Do nothing after the installation."""


@dataclass(frozen=True)
class PythonEnvironment:
    """The definition of an environment."""

    word: str
    """WORD in `gke-inference tools --with WORD`."""
    title: str
    """Name in messages, such as `the real vLLM`."""
    package: str
    """Distribution that gives the environment its name."""
    version: str
    """Version of the distribution."""
    lock: Path
    """Requirements file with hashes."""
    disk_gib: int
    """Free disk space for the installation, including uv's downloads."""
    fetching: str
    """Description of the download and its duration."""
    finish: Callable[[Path], None] = _nothing
    """Called with the environment's folder after its packages are installed."""
    beneath: "PythonEnvironment | None" = None
    """Environment whose packages it also has; it is installed first."""

    @property
    def folder(self) -> Path:
        """Folder of the environment, whether or not it exists.

        Its name contains the release and a hash of the locks, so a new lock gives a new folder.
        """
        locked = self.lock.read_bytes()
        if self.beneath is not None:
            locked += self.beneath.lock.read_bytes()
        digest = hashlib.sha256(locked).hexdigest()[:8]
        return cache_root().parent / "engines" / f"{self.package}-{self.version}-{digest}"

    @property
    def is_installed(self) -> bool:
        """Whether its programs can start."""
        is_complete = (self.folder / ".complete").exists()
        return is_complete and (self.beneath is None or self.beneath.is_installed)

    @property
    def hint(self) -> str:
        """Message for features that need it, with the command that installs it."""
        return f"{self.title} is not installed: run `gke-inference tools --with {self.word}`"

    def python(self) -> Path:
        """Return its interpreter.

        Raises:
            ToolError: the environment is not installed; the message names the command.
        """
        if not self.is_installed:
            raise ToolError(self.hint)
        return self.folder / "bin" / "python"

    def packages(self) -> Path:
        """Return the folder of its packages."""
        return packages_of(self.folder)

    def install(self, announce: Progress) -> Path:
        """Install it if it is missing, and return its folder.

        An interrupted installation starts again, without repeating finished downloads.

        Raises:
            ToolError: the disk has too little space, or a locked package is not in the index.
        """
        if self.beneath is not None:
            self.beneath.install(announce)
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
            if self.beneath is not None:
                listed = packages_of(folder) / f"{self.beneath.package}.pth"
                listed.write_text(f"{self.beneath.packages()}\n")
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
    """Compile the bytecode of some packages of an environment, for fast first starts."""
    interpreter = str(folder / "bin" / "python")
    paths = [str(packages_of(folder) / package) for package in packages]
    # some files of large packages are templates that do not compile, which is not a failure
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
"""JAX and libtpu, which compile for TPUs and run kernels on this machine's CPU."""

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
"""The packages of the image `guardrails`, which the twin runs in a separate environment."""


WORKLOADS_PATH = os.pathsep.join((str(REPOSITORY / "workloads"), str(REPOSITORY)))
"""PYTHONPATH of programs that find `diffusion`, `kernels` and `workloads.common` as in an image."""


def guardrails_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables for the guard on this machine, without network access.

    Args:
        extra: more of them.
    """
    kept = {key: value for key, value in os.environ.items() if key in ("HOME", "PATH", "TMPDIR")}
    return {
        **kept,
        "NEMO_GUARDRAILS_NO_USAGE_STATS": "1",  # it reports to its maker otherwise
        "PYTHONPATH": str(REPOSITORY),
        **(extra or {}),
    }


def xla_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables with which JAX compiles for TPUs on a machine without TPUs.

    Args:
        extra: more of them.
    """
    kept = {key: value for key, value in os.environ.items() if key in ("HOME", "PATH", "TMPDIR")}
    return {
        **kept,
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": WORKLOADS_PATH,
        **(extra or {}),
    }
