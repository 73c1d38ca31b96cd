"""Language hosts that load what programs import while the command itself loads.

This module imports little, because nothing is saved before it has started them.
"""

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from twin.host.paths import TwinPaths
from twin.host.processes import process_environment
from twin.pulumi.warm_hosts import WarmHosts

if TYPE_CHECKING:
    from twin.pulumi.official import OfficialPlugins

_COMMANDS = ("preview", "render", "up")
_WITHOUT = ("--help", "-h", "--official", "--on")
"""Options with which these commands need no host of the twin, or may not."""
_MODULES = ("infra.reading.built", "infra.reading.platform_reference", "infra.deploy.program")
"""What this repository's program imports."""
_STANDARD_ERROR = 2
_ahead: dict[Path, WarmHosts] = {}


def load_ahead(arguments: Sequence[str]) -> None:
    """Start to load the hosts that a command line will ask for, before its module is imported."""
    options = {argument.partition("=")[0] for argument in arguments}
    if arguments[0] in _COMMANDS and options.isdisjoint(_WITHOUT):
        with suppress(OSError):  # the command comes to it again, and says what is wrong
            paths = TwinPaths.default()
            _ahead[paths.root] = _started(paths, _MODULES, _STANDARD_ERROR)


def program_hosts(paths: TwinPaths, official: "OfficialPlugins | None") -> WarmHosts | None:
    """Return hosts that load what this repository's program imports.

    The sooner they start, the less a run waits for them. What programs print goes to standard
    error, because the engine does not read it.

    Args:
        paths: Paths of the twin.
        official: Plugins that replace the twin's own. The official language host then runs
            programs: None.
    """
    if official is not None:
        return None
    return _ahead.pop(paths.root, None) or _started(paths, _MODULES, _STANDARD_ERROR)


def language_hosts(paths: TwinPaths, official: "OfficialPlugins | None") -> WarmHosts | None:
    """Return hosts that load the SDKs alone, for programs of others; their output is dropped."""
    return None if official is not None else _started(paths, (), subprocess.DEVNULL)


def _started(paths: TwinPaths, modules: Sequence[str], output: int) -> WarmHosts:
    folder = paths.root / "hosts"
    folder.mkdir(parents=True, exist_ok=True)
    return WarmHosts(folder, {**os.environ, **process_environment(paths)}, modules, output)
