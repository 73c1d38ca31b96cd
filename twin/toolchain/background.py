"""Tools prepared beside other work, in a process of their own.

A deployment goes on without them; whoever needs one waits, or tries again, until it is there.
"""

import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from twin.host.paths import REPOSITORY
from twin.toolchain.cache import cache_root, is_locked
from twin.toolchain.find import missing, tool
from twin.toolchain.registry import Module, ToolError, module_of, needed_by

_WAIT_SECONDS = 1.0
_started: dict[str, subprocess.Popen[bytes]] = {}
_lock = threading.Lock()


def log_file() -> Path:
    """Return the file that the background process writes its progress to."""
    return cache_root() / "background.log"


def prepare_beside(wanted: Sequence[Module]) -> list[Module]:
    """Start to prepare the modules that are missing, in another process, and return those.

    Modules that another process prepares already are left to it.

    Raises:
        ToolError: they could not be prepared before; the message names the log.
    """
    absent = missing(wanted)
    with _lock:
        for module in absent:
            process = _started.get(module.name)
            if process is not None and process.poll():
                raise ToolError(
                    f"{module.name} cannot be prepared: see {log_file()}, "
                    f"then run `gke-inference tools --only {module.name}`"
                )
        new = [
            module
            for module in absent
            if module.name not in _started and not is_locked(lock_name(module))
        ]
        if new:
            process = _start(new)
            _started.update({module.name: process for module in new})
    return absent


def obtain(program: str) -> Path:
    """Return the path of a program; one that is missing is prepared in the background.

    Raises:
        ToolError: it is not there yet, and the message says so; ask again later.
    """
    if program != "envoy":
        module = module_of(program)
        if prepare_beside([module]):
            raise ToolError(f"{program} {module.version} is being prepared: see {log_file()}")
    return tool(program)


def wait_for(purpose: str, stop: threading.Event) -> bool:
    """Wait until the tools of a purpose are there; return False if `stop` was set first.

    Args:
        purpose: a key of `needs` in modules.yaml.
        stop: ends the wait.

    Raises:
        ToolError: they cannot be prepared.
    """
    while not stop.is_set():
        if not prepare_beside(needed_by(purpose)):
            return True
        stop.wait(_WAIT_SECONDS)
    return False


def lock_name(module: Module) -> str:
    """Return the lock that is held while a module is prepared in the background."""
    return f"background-{module.key}"


def _start(modules: Sequence[Module]) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-m", "twin.toolchain", *(one.name for one in modules)]
    cache_root().mkdir(parents=True, exist_ok=True)
    with log_file().open("ab") as log:
        return subprocess.Popen(
            argv,
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
