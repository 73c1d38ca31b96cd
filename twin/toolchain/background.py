"""Preparation of tools in a background process.

A deployment continues without them; code that needs a tool waits or retries until it exists.
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
    """Return the progress file of the background process."""
    return cache_root() / "background.log"


def prepare_beside(wanted: Sequence[Module]) -> list[Module]:
    """Start to prepare the missing modules in another process, and return them.

    Modules that another process is already preparing are skipped.

    Raises:
        ToolError: an earlier preparation failed; the message names the log.
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
    """Return the path of a program; prepare a missing one in the background.

    Raises:
        ToolError: the program is not ready yet; retry later.
    """
    if program != "envoy":
        module = module_of(program)
        if prepare_beside([module]):
            raise ToolError(f"{program} {module.version} is being prepared: see {log_file()}")
    return tool(program)


def wait_for(purpose: str, stop: threading.Event) -> bool:
    """Wait until the tools for a purpose exist; return False if `stop` was set first.

    Args:
        purpose: a key of `needs` in modules.yaml.
        stop: event that ends the wait.

    Raises:
        ToolError: the tools cannot be prepared.
    """
    while not stop.is_set():
        if not prepare_beside(needed_by(purpose)):
            return True
        stop.wait(_WAIT_SECONDS)
    return False


def lock_name(module: Module) -> str:
    """Return the lock for the preparation of a module in the background."""
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
