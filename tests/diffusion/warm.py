"""An interpreter of the image pipeline that has its packages loaded."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from twin.engines import image_pipeline
from twin.engines.image_pipeline import DIFFUSION
from twin.host.paths import REPOSITORY

_FOLDER = REPOSITORY / "tests" / "diffusion"
_LOAD_SECONDS = 120.0
_QUICK = {
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
}
"""Programs of tiny models take longer to compile than to run."""


def environment() -> dict[str, str]:
    """Return the environment of programs with tiny models."""
    return image_pipeline.environment(_QUICK)


class Warm:
    """A process that forks programs, from the first that is asked for until `stop`."""

    def __init__(self) -> None:
        """Start nothing."""
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def python(self) -> Path:
        """Return an executable in the place of `DIFFUSION.python()`."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="forks-")
            self._start(Path(self._folder.name))
        return Path(self._folder.name, "python")

    def _start(self, folder: Path) -> None:
        path, file = folder / "socket", folder / "python"
        interpreter = f"'{sys.executable}' -S -E '{_FOLDER}/interpreter.py' '{path}'"
        file.write_text(f'#!/bin/sh\nexec {interpreter} "$@"\n')
        file.chmod(0o755)
        self._process = subprocess.Popen(
            [DIFFUSION.python(), str(_FOLDER / "forks.py"), str(path), str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd=REPOSITORY,
            env=environment(),
        )
        until = time.monotonic() + _LOAD_SECONDS
        while not path.exists():
            assert self._process.poll() is None, "the packages cannot be loaded"
            assert time.monotonic() < until
            time.sleep(0.05)

    def stop(self) -> None:
        """End the process and what it runs."""
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.wait(30)
        if self._folder is not None:
            self._folder.cleanup()
        self._process = self._folder = None


WARM = Warm()
