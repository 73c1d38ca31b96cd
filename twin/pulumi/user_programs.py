"""Programs that are not this repository's: they run in their own environment, as a child.

Only the program of this repository runs inside the language host, which has its SDKs loaded.
"""

import importlib
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc

from twin.pulumi import run_program

_engine_pb2: Any = importlib.import_module("pulumi.runtime.proto.engine_pb2")
_engine_grpc: Any = importlib.import_module("pulumi.runtime.proto.engine_pb2_grpc")
_OWN = re.compile(r"^name: (gke-inference|floor)$", re.MULTILINE)
"""Projects of this repository: the platform, and the program that measures the engine."""


class ProgramError(Exception):
    """A program that could not run, or has not reported its failure; the message is one line."""


def is_own(info: Any) -> bool:
    """Return whether a program is this repository's, in any checkout.

    Args:
        info: `ProgramInfo` of the program.
    """
    with suppress(OSError):
        return bool(_OWN.search(Path(info.root_directory, "Pulumi.yaml").read_text("utf-8")))
    return False


_PLUGIN_ENVIRONMENT = "venv"
"""The virtual environment of a plugin that names none, as the official host has it."""


def chosen_environment(info: Any) -> Path | None:
    """Return the virtual environment that a program names, or None.

    Args:
        info: `ProgramInfo`; a relative `virtualenv` is below its root.
    """
    chosen = dict(info.options).get("virtualenv")
    return _root(info) / chosen if chosen else None


def plugin_environment(info: Any) -> Path:
    """Return the virtual environment of a component plugin, which may not exist.

    Args:
        info: `ProgramInfo` of the plugin.
    """
    return chosen_environment(info) or _root(info) / _PLUGIN_ENVIRONMENT


def _root(info: Any) -> Path:
    return Path(info.root_directory or info.program_directory)


def interpreter(info: Any, environment: Mapping[str, str]) -> str:
    """Return the Python interpreter of a program that is not this repository's.

    That is the one of its `virtualenv`, of the active virtual environment, or on PATH.

    Args:
        info: `ProgramInfo` of the program.
        environment: Environment variables of the shell.

    Raises:
        ProgramError: The program names a virtual environment that does not exist.
    """
    named = chosen_environment(info)
    if named is not None:
        python = named / "bin" / "python"
        if not python.exists():
            raise ProgramError(
                f"runtime.options.virtualenv: must be a virtual environment, there is no {python}; "
                "run pulumi install"
            )
        return str(python)
    active = environment.get("VIRTUAL_ENV")
    if active and (python := Path(active, "bin", "python")).exists():
        return str(python)
    return shutil.which("python3", path=environment.get("PATH")) or sys.executable


def run(request: Any, engine: str, context: Any) -> bool:
    """Run a program in its own environment; return whether it succeeded.

    Args:
        request: `RunRequest` of the engine.
        engine: Address of the engine.
        context: Context of the call, which ends the program when it ends. The program then fails
            without a report, because the engine no longer waits for it.

    Raises:
        ProgramError: The environment does not exist, or does not have the SDK; or the
            program ended without a report of its failure.
    """
    python = interpreter(request.info, os.environ)
    request.args[:] = [engine]
    program = [python, "-u", run_program.__file__]
    with subprocess.Popen(
        program,
        cwd=request.pwd or request.info.program_directory,
        env=_activated(python, os.environ),
        stdin=subprocess.PIPE,
    ) as child:
        cancelled = threading.Event()

        def kill() -> None:
            cancelled.set()
            child.kill()

        if not context.add_callback(kill):  # the call has ended already
            kill()
        with suppress(BrokenPipeError):  # it ended at once; its status is the answer
            child.communicate(request.SerializeToString())
        code = child.wait()
    if cancelled.is_set():
        return False
    if code == run_program.NO_SDK:
        raise ProgramError(
            f"{python}: must have the package pulumi, which the program needs; run pulumi install, "
            "or pip install it there"
        )
    if code not in (0, run_program.FAILED):
        raise ProgramError(f"the program ended with exit code {code}; {python} ran it")
    return code == 0


def report(engine: str, message: str) -> None:
    """Make the engine print an error.

    Args:
        engine: Address of the engine.
        message: One line.
    """
    with grpc.insecure_channel(engine) as channel:
        _engine_grpc.EngineStub(channel).Log(
            _engine_pb2.LogRequest(severity=_engine_pb2.ERROR, message=message)
        )


def install(info: Any, *, is_plugin: bool = False) -> Iterator[bytes]:
    """Create the virtual environment that a program names, and install its requirements.

    A component plugin has one even if it names none, and is installed there as a package if it can
    be built. Yields the output of the programs.

    Args:
        info: `ProgramInfo` of the program.
        is_plugin: Whether it is a component plugin.

    Raises:
        ProgramError: One of them failed; or the program needs another tool than pip.
    """
    named = plugin_environment(info) if is_plugin else chosen_environment(info)
    if named is None or is_own(info):
        return
    toolchain = dict(info.options).get("toolchain") or "pip"
    if toolchain != "pip":
        raise ProgramError(
            f"runtime.options.toolchain: must be pip on the twin, got {toolchain!r}; create "
            f"{named} yourself"
        )
    root = _root(info)
    python = named / "bin" / "python"
    steps: list[list[str]] = []
    if not python.exists():
        steps.append([sys.executable, "-m", "venv", str(named)])
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
    if is_plugin and _is_buildable(root):
        steps.append([*pip, "."])
    if (root / "requirements.txt").exists():
        steps.append([*pip, "-r", "requirements.txt"])
    for step in steps:
        ran = subprocess.run(
            step, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        yield ran.stdout
        if ran.returncode:
            raise ProgramError(f"{' '.join(step)}: ended with exit code {ran.returncode}")


def _is_buildable(root: Path) -> bool:
    """Return whether pip can build a package from a folder: it names a build system."""
    project = root / "pyproject.toml"
    return project.exists() and "build-system" in tomllib.loads(project.read_text("utf-8"))


def _activated(python: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a program: those of the shell, with its environment activated."""
    programs = Path(python).parent
    path = os.pathsep.join([str(programs), environment.get("PATH", "")])
    found = {**environment, "PATH": path}
    found.pop("PYTHONHOME", None)
    if (programs.parent / "pyvenv.cfg").exists():
        found["VIRTUAL_ENV"] = str(programs.parent)
    return found
