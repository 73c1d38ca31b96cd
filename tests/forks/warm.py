"""Interpreters that have the modules of a program loaded."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from twin.host.paths import REPOSITORY

_LOAD_SECONDS = 120.0


class Warm:
    """A process that forks programs, from the first that is asked for until `stop` or the end.

    Args:
        python: Returns the interpreter that the process runs.
        environment: Returns the environment of the process.
        modules: Modules to load.
    """

    def __init__(
        self,
        python: Callable[[], Path],
        environment: Callable[[Path], Mapping[str, str]],
        *modules: str,
    ) -> None:
        """Start nothing."""
        self._real, self._environment, self._modules = python, environment, modules
        self._process: subprocess.Popen[bytes] | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def python(self) -> Path:
        """Return an executable in the place of the interpreter."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="forks-")
            self._start(Path(self._folder.name))
        return Path(self._folder.name, "python")

    def _start(self, folder: Path) -> None:
        path, file = folder / "socket", folder / "python"
        here = Path(__file__).parent
        interpreter = f"'{sys.executable}' -S -E '{here}/interpreter.py' '{path}'"
        file.write_text(f'#!/bin/sh\nexec {interpreter} "$@"\n')
        file.chmod(0o755)
        self._process = subprocess.Popen(
            [self._real(), str(here / "forks.py"), str(path), str(file), *self._modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            cwd=REPOSITORY,
            env=self._environment(folder),
        )
        until = time.monotonic() + _LOAD_SECONDS
        while not path.exists():
            assert self._process.poll() is None, "the modules cannot be loaded"
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
