"""The language hosts of a command, which load what programs import while the command itself loads.

This module imports little, because nothing is saved before it has started them.
"""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from twin.host.paths import TwinPaths
from twin.host.processes import process_environment
from twin.pulumi.warm_hosts import WarmHosts

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
            _ahead[paths.root] = _started(paths)


def program_hosts(paths: TwinPaths) -> WarmHosts:
    """Return hosts that are loading; the sooner they start, the less the run waits for them.

    What programs print goes to standard error, because the engine does not read it.
    """
    return _ahead.pop(paths.root, None) or _started(paths)


def _started(paths: TwinPaths) -> WarmHosts:
    folder = paths.root / "hosts"
    folder.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, **process_environment(paths)}
    return WarmHosts(folder, environment, _MODULES, _STANDARD_ERROR)
