"""Installation of tools in the cache: official binaries if available, else builds from source."""

import functools
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from twin.toolchain import network
from twin.toolchain.cache import check_room, is_cached, locked, store
from twin.toolchain.find import missing
from twin.toolchain.gobuild import Progress, build, find_go
from twin.toolchain.gomodules import copy_shared
from twin.toolchain.registry import Module
from twin.toolchain.releases import ReleaseError, install_release

_DOWNLOADS = 4
_BUILDS = 2
"""One module compiles while the other links or downloads."""
_NOTHING_PUBLISHED = "no official binaries are published"


def _no_progress(module: str, done: int, total: int, doing: str) -> None:
    del module, done, total, doing


def _no_report(line: str) -> None:
    del line


def provide(
    wanted: Sequence[Module],
    announce: Progress = _no_progress,
    report: Callable[[str], None] = _no_report,
) -> list[Module]:
    """Install the missing modules in the cache, and return them.

    It can be interrupted: finished modules remain, and downloads and builds are resumed.

    Args:
        wanted: required modules.
        announce: called with the progress of each module.
        report: called with one line that names the modules to build from source, and why.

    Raises:
        ToolError: a module can neither be downloaded nor built.
    """
    network.check_settings()
    absent = missing(wanted)
    if not absent:
        return []
    check_room()
    go = _Go(announce)
    reasons = _download(absent, go, announce)
    left = [module for module in absent if not is_cached(module)]
    if any(module.binaries for module in left):
        report(_why(left, reasons))
    _in_parallel(
        _BUILDS, [functools.partial(_build_all, go, group, announce) for group in _grouped(left)]
    )
    return absent


class _Go:
    """A Go toolchain that is found or installed on first use."""

    def __init__(self, announce: Progress) -> None:
        self._announce = announce
        self._lock = threading.Lock()
        self._path = ""

    def path(self) -> str:
        with self._lock:
            if not self._path:
                self._path = find_go(self._announce)
            return self._path


def _download(absent: list[Module], go: _Go, announce: Progress) -> dict[str, str]:
    """Install official binaries; return the reason for each module without a usable one."""
    if network.is_source_only():
        reason = f"{network.FROM_VARIABLE} is 'source'"
        return {module.name: reason for module in absent if module.releases}
    reasons: dict[str, str] = {}

    def attempt(module: Module) -> None:
        try:
            with locked(module.key):
                if not is_cached(module):
                    store(module, functools.partial(_from_release, go, module, announce))
        except ReleaseError as error:
            reasons[module.name] = str(error)

    published = [module for module in absent if module.releases]
    _in_parallel(_DOWNLOADS, [functools.partial(attempt, module) for module in published])
    return reasons


def _from_release(go: _Go, module: Module, announce: Progress, target: Path) -> dict[str, Any]:
    origin = install_release(module, target / "bin", announce)
    if module.share:
        copy_shared(go.path(), module, target / "share")
    return origin


def _grouped(modules: Iterable[Module]) -> list[list[Module]]:
    """Return modules by folder, so that builds with shared packages run one after another."""
    groups: dict[Path, list[Module]] = {}
    for module in modules:
        groups.setdefault(module.folder, []).append(module)
    return list(groups.values())


def _build_all(go: _Go, group: list[Module], announce: Progress) -> None:
    for module in group:
        with locked(module.key):
            if not is_cached(module):
                store(module, functools.partial(_from_source, go, module, announce))


def _from_source(go: _Go, module: Module, announce: Progress, target: Path) -> dict[str, Any]:
    if module.binaries:
        build(go.path(), module, target / "bin", announce)
    if module.share:
        announce(module.name, 0, 1, "copying files out of its sources")
        copy_shared(go.path(), module, target / "share")
        announce(module.name, 1, 1, "files copied")
    return {"from": "source"}


def _why(modules: list[Module], reasons: dict[str, str]) -> str:
    """Return the line that names the modules to build from source, and why."""
    built = [module for module in modules if module.binaries]
    names = ", ".join(f"{module.name} {module.version}" for module in built)
    given = [reasons.get(module.name, _NOTHING_PUBLISHED) for module in built]
    parts = dict.fromkeys(part for reason in given for part in reason.split("; "))
    return f"Building {names} from source, once on this machine: {'; '.join(parts)}"


def _in_parallel(workers: int, tasks: Sequence[Callable[[], None]]) -> None:
    """Run tasks; the first error cancels those that have not started."""
    if not tasks:
        return
    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(task) for task in tasks]
        try:
            for future in futures:
                future.result()
        except BaseException:
            network.cancel()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
