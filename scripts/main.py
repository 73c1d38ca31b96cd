"""Entry point of `gke-inference`."""

import ast
import errno
import gc
import importlib
import os
import sys
from pathlib import Path
from typing import Any

import typer
from typer.exceptions import TyperException

from scripts.console import CommandError, Exit, errors
from twin.host.processes import ProcessError
from twin.toolchain import ToolError
from twin.wire.kube import KubeError

GROUPS = {
    "On the twin": ("up", "status", "ask", "trace", "logs", "env", "sweep", "down"),
    "Before anything is paid for": (
        "plan", "cost", "quota", "coldstart", "preflight", "replay", "images",
    ),
    "A stack, and a change of it": (
        "preview", "verdict", "touched", "render", "check", "dashboards",
    ),
    "A project in the cloud": ("bootstrap",),
    "The blueprint itself": ("tools", "bench", "kernels", "schema", "docs"),
}  # fmt: skip
"""Subcommands by what they are for, as the help lists them."""

COMMANDS = tuple(name for names in GROUPS.values() for name in names)
"""Subcommands: the module `scripts.NAME` has the function `NAME`."""

_GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}


_OF_THE_MACHINE = (errno.EACCES, errno.EDQUOT, errno.ENOSPC, errno.EPERM, errno.EROFS)
"""What the user mends, and no traceback explains better: no right, no room, read-only."""


def build_app(names: tuple[str, ...] = COMMANDS) -> typer.Typer:
    """Return the program with some of its subcommands; only their modules are imported."""
    app = _empty_app()
    for name in names:
        module: Any = importlib.import_module(f"scripts.{name}")
        app.command(name, rich_help_panel=_GROUP_OF[name])(getattr(module, name))
    return app


def list_app() -> typer.Typer:
    """Return the program as its own help shows it; no module of a subcommand is imported."""
    app = _empty_app()
    for name in COMMANDS:
        app.command(name, help=_docstring(name), rich_help_panel=_GROUP_OF[name])(lambda: None)
    return app


def _docstring(name: str) -> str | None:
    tree = ast.parse(Path(__file__).with_name(f"{name}.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return next(ast.get_docstring(node) for node in functions if node.name == name)


def _empty_app() -> typer.Typer:
    app = typer.Typer(
        name="gke-inference",
        help="Operate the GKE inference blueprint: try it on the twin, check it, start a project.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def _group() -> None:  # pyright: ignore[reportUnusedFunction]
        """Keep `gke-inference NAME` the form of the call when one subcommand is loaded."""

    return app


def app_for(arguments: list[str]) -> typer.Typer:
    """Return what a command line needs of the program.

    Args:
        arguments: after the program's name.
    """
    named = [each for each in arguments if each in COMMANDS]
    if not named:
        return list_app()  # nothing can run: it is help that is wanted, or a wrong name
    return build_app((named[0],) if arguments[0] == named[0] else COMMANDS)


def main() -> None:
    """Run a subcommand; an error is one message and exit code 2."""
    try:
        code = _run(sys.argv[1:])
    except (CommandError, KubeError, ProcessError, ToolError) as error:
        errors.print(f"error: {error}", markup=False, style="red")
        code = Exit.ERROR
    except OSError as error:
        if error.errno not in _OF_THE_MACHINE:
            raise
        where = error.filename or "the output"
        errors.print(f"error: {where}: {error.strerror}", markup=False, style="red")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left to be written would fail again
        code = Exit.ERROR
    except (KeyboardInterrupt, typer.Abort):
        code = Exit.INTERRUPTED
    if code == Exit.INTERRUPTED:
        errors.print("interrupted: run the same command again to go on")
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    """Return what a command line ends with.

    Raises:
        CommandError: it is wrong, or the subcommand cannot go on.
    """
    asked = arguments[0] if arguments else ""
    if not asked:
        list_app()(["--help"], standalone_mode=False)
        return Exit.ERROR
    if asked not in COMMANDS and not asked.startswith("-"):
        from infra.stack.problems import one_of  # noqa: PLC0415 - as below

        raise CommandError(str(one_of("COMMAND", asked, COMMANDS)))
    gc.disable()  # what is loaded stays: looking through it would find nothing, and takes a tenth
    app = app_for(arguments)
    gc.freeze()
    gc.enable()
    try:
        return app(standalone_mode=False) or Exit.DONE
    except TyperException as error:
        from scripts.usage import usage_line  # noqa: PLC0415 - only for what is wrong

        raise CommandError(usage_line(error)) from None


if __name__ == "__main__":
    main()
