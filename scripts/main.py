"""Entry point of `gke-inference`: runs a command, prints its error, exits with its code."""

import errno
import gc
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import typer
from typer.exceptions import TyperException

from scripts.app import COMMANDS, app_for, command_of, list_app
from scripts.shared.program_hosts import load_ahead
from scripts.terminal.console import CommandError, errors
from scripts.terminal.exit_codes import ExitCode
from twin.host.inherited import raise_open_files
from twin.host.paths import TWIN_VARIABLE, TwinPaths, file_above
from twin.host.processes import ProcessError
from twin.toolchain import ToolError
from twin.wire.kube import KubeError

_USER_FIXES = (errno.EACCES, errno.EDQUOT, errno.ENOSPC, errno.EPERM, errno.EROFS)
"""Errors of the machine that users can fix without a traceback."""

_FULL = (errno.EDQUOT, errno.ENOSPC)
_OUTPUT = "standard output"
_COMPLETION_VARIABLE = "_GKE_INFERENCE_COMPLETE"
"""Variable that the completion script of a shell sets, named by typer after the program."""


def main() -> None:
    """Run a command and exit with its exit code; an error is one line on standard error."""
    run_and_exit(_run)


def run_and_exit(run: Callable[[list[str]], int]) -> None:
    """Run a program on its command line and exit; an error is one line on standard error.

    Args:
        run: Function that takes the command line and returns the exit code.
    """
    raise_open_files()
    try:
        code = run(sys.argv[1:])
    except CommandError as error:
        code = _report(str(error), error.code)
    except (KubeError, ProcessError, ToolError) as error:
        code = _report(str(error))
    except OSError as error:
        if error.errno not in _USER_FIXES:
            raise
        code = _report(f"{_place(error)}: {error.strerror}")
        _discard_output()
    except (KeyboardInterrupt, typer.Abort):
        code = ExitCode.INTERRUPTED
    except SystemExit:  # only if the reader of a pipe has ended: commands do not exit by themselves
        code = ExitCode.BROKEN_PIPE
        _discard_output()
    if code == ExitCode.INTERRUPTED:
        errors.print("interrupted: run the same command again to continue")
    sys.exit(code)


def _place(error: OSError) -> str:
    """Return what an error of the machine is about; a full disk is about a folder."""
    if error.errno not in _FULL:
        return str(error.filename or _OUTPUT)
    if error.filename is not None:  # a copy names its source first, and fails at its target
        return str(Path(os.fsdecode(error.filename2 or error.filename)).parent)
    folder = TwinPaths.default().root
    while not folder.exists():
        folder = folder.parent
    return _OUTPUT if shutil.disk_usage(folder).free else str(folder)


def check_twin_folder() -> None:
    """Refuse a setting of the twin's folder that is a file, or below one.

    Raises:
        CommandError: The message names the variable.
    """
    folder = TwinPaths.default().root
    file = file_above(folder)
    if file is not None:
        raise CommandError(f"{TWIN_VARIABLE}: must be a folder, got '{folder}': {file} is a file")


def _report(message: str, code: ExitCode = ExitCode.ERROR) -> ExitCode:
    errors.print(f"error: {message}", markup=False, style="red")
    return code


def _discard_output() -> None:
    """Discard pending output, which would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _run(arguments: list[str]) -> int:
    """Return the exit code of a command line.

    Raises:
        CommandError: The command line is invalid, or the command cannot continue.
    """
    if _COMPLETION_VARIABLE in os.environ:
        return _complete()
    asked = arguments[0] if arguments else ""
    if not asked:
        invoke(list_app(), ["--help"], "gke-inference")
        return ExitCode.ERROR
    if asked not in COMMANDS and not asked.startswith("-"):
        from gke_inference.catalogue.problems import one_of  # noqa: PLC0415 - as below

        raise CommandError(str(one_of("COMMAND", asked, COMMANDS)))
    check_twin_folder()
    load_ahead(arguments)
    collects = gc.isenabled()
    gc.disable()  # loaded modules stay: a collection would take a tenth of the time
    app = app_for(arguments)
    gc.freeze()
    if collects:
        gc.enable()
    return invoke(app, arguments, "gke-inference")


def _complete() -> int:
    """Print completions of the command line that the shell's script passes; return an exit code."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    try:
        return invoke(app_for(line.split()[1:]), [], "gke-inference")
    except SystemExit as done:  # so ends a completion
        return int(done.code or ExitCode.OK)


def invoke(app: typer.Typer, arguments: list[str], program: str) -> int:
    """Run a command line of an app and return its exit code.

    Args:
        app: App with the commands.
        arguments: Command line without the program's name.
        program: Name of the program, for help and errors.

    Raises:
        CommandError: The command line is invalid, or the command cannot continue.
    """
    try:
        return command_of(app)(arguments, prog_name=program, standalone_mode=False) or ExitCode.OK
    except TyperException as error:
        from scripts.terminal.usage import usage_line  # noqa: PLC0415 - only for what is wrong

        raise CommandError(usage_line(error)) from None


if __name__ == "__main__":
    main()
