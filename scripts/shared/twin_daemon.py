"""The twin's daemon, as commands start it."""

from scripts.terminal.console import errors
from twin import daemon
from twin.host.paths import TwinPaths


def start_daemon(paths: TwinPaths, speed: float | None = None) -> dict[str, int]:
    """Return the daemon's ports, after starting it if needed, and say so if it replaces another.

    A daemon serves commands with its own code alone, and a twin has one daemon.

    Args:
        paths: Paths of the twin.
        speed: Clock speed as a multiple of real time; a running twin keeps its speed.

    Raises:
        twin.host.processes.ProcessError: The daemon did not start.
    """
    other = daemon.other_code(paths)
    if other is not None:
        errors.print(
            f"Replacing the twin's daemon, which has other code (of {other}). A command that still "
            "uses it fails; run it again.",
            markup=False,
            soft_wrap=True,
        )
    return daemon.ensure(paths, speed)
