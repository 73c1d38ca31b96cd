"""Entry point of `gke-inference`."""

import importlib
import sys
from typing import Any

import typer

from scripts.console import CommandError, errors
from twin.kube import KubeError
from twin.processes import ProcessError
from twin.toolchain import ToolError

COMMANDS = (
    "up",
    "down",
    "status",
    "ask",
    "preview",
    "verdict",
    "render",
    "check",
    "preflight",
    "kernels",
    "dashboards",
    "trace",
    "logs",
    "env",
    "sweep",
    "tools",
    "bootstrap",
    "schema",
    "docs",
    "bench",
    "images",
    "replay",
    "plan",
    "cost",
    "quota",
    "coldstart",
)
"""Subcommands: the module `scripts.NAME` has the function `NAME`."""


def build_app(names: tuple[str, ...] = COMMANDS) -> typer.Typer:
    """Return the program with some of its subcommands; only their modules are imported."""
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

    for name in names:
        module: Any = importlib.import_module(f"scripts.{name}")
        app.command(name)(getattr(module, name))
    return app


def main() -> None:
    """Run a subcommand; an error is one message and exit code 2."""
    asked = sys.argv[1] if len(sys.argv) > 1 else ""
    app = build_app((asked,) if asked in COMMANDS else COMMANDS)
    try:
        app()
    except (CommandError, KubeError, ProcessError, ToolError) as error:
        errors.print(f"error: {error}", markup=False, style="red")
        sys.exit(2)
    except KeyboardInterrupt:
        errors.print("interrupted: run the same command again to go on")
        sys.exit(130)


if __name__ == "__main__":
    main()
