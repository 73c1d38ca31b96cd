"""The commands of `gke-inference`, grouped by purpose, and their Typer app."""

import ast
import importlib
import inspect
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

GROUPS = {
    "Twin": ("up", "trace", "env", "down"),
    "Plan": ("plan", "cost", "quota", "coldstart", "distance", "replay", "rehearse", "traffic"),
    "Check": ("preflight", "preview", "verdict", "upgrade", "touched", "render", "check", "audit"),
    "Operate": (
        "status",
        "ask",
        "logs",
        "recover",
        "sweep",
        "bootstrap",
        "adopt",
        "delivery",
        "canary",
        "models",
        "clients",
        "jobs",
        "images",
        "accept",
        "calibrate",
        "dashboards",
    ),
    "Develop": ("doctor", "tools", "kernels", "schema", "docs", "website"),
}
"""Commands by purpose, in the order of the help."""

PURPOSES = {
    "Twin": "Run the platform on this machine.",
    "Plan": "Estimate hardware, cost, quota and start times before you deploy.",
    "Check": "Check a stack, and a change to it.",
    "Operate": "Prepare and operate a platform, on the twin or in Google Cloud.",
    "Develop": "Work on the blueprint itself.",
}
"""Description of each group."""

_FOLDERS = ("operate", "plan", "check", "develop")

COMMANDS = tuple(name for names in GROUPS.values() for name in names)
"""Command names. The module FOLDER/NAME.py, or NAME/command.py of a command with a folder of its
own, has the function `NAME`, or, for a command with subcommands, the `typer.Typer` `NAME` whose
callback is the function `NAME_group`."""

_PANELS = {
    name: f"{group}: {PURPOSES[group][0].lower()}{PURPOSES[group][1:-1]}"
    for group, names in GROUPS.items()
    for name in names
}


def build_app(names: tuple[str, ...] = COMMANDS) -> typer.Typer:
    """Return the app with some of its commands; imports only the modules of those."""
    app = _empty_app()
    for name in names:
        module: Any = importlib.import_module(f"scripts.{module_of(name)}")
        command: Any = getattr(module, name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=_PANELS[name])
        else:
            app.command(name, rich_help_panel=_PANELS[name])(command)
    unwrap_help(app)
    return app


def unwrap_help(app: typer.Typer) -> None:
    """Make each paragraph of help one line; the terminal would break lines of source again."""
    for command in app.registered_commands:
        if command.callback is not None and command.callback.__doc__:
            command.help = _unwrapped(command.callback.__doc__)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            unwrap_help(group.typer_instance)


def command_of(app: typer.Typer) -> Any:
    """Return the command of an app whose help shows no type for flags: they take no value."""
    command: Any = typer.main.get_command(app)
    _hide_flag_types(command)
    return command


def _hide_flag_types(command: Any) -> None:
    for param in command.params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    option_of = command.get_help_option

    def help_option(ctx: Any) -> Any:
        option = option_of(ctx)
        option.metavar = ""
        return option

    command.get_help_option = help_option
    for each in getattr(command, "commands", {}).values():
        _hide_flag_types(each)


def _unwrapped(text: str) -> str:
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def module_of(name: str) -> str:
    """Return the module of a command below this package."""
    here = Path(__file__).parent
    if (here / name / "command.py").is_file():
        return f"{name}.command"
    folder = next(each for each in _FOLDERS if (here / each / f"{name}.py").is_file())
    return f"{folder}.{name}"


def list_app() -> typer.Typer:
    """Return the app as `--help` lists it; imports no module of a command."""
    app = _empty_app()
    for name in COMMANDS:
        app.command(name, help=_docstring(name), rich_help_panel=_PANELS[name])(lambda: None)
    return app


def _docstring(name: str) -> str | None:
    file = Path(__file__).parent.joinpath(*module_of(name).split(".")).with_suffix(".py")
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    names = (name, f"{name}_group")
    return next(ast.get_docstring(node) for node in functions if node.name in names)


class _InOrder(TyperGroup):
    """Lists commands in the order of `COMMANDS`; typer lists those with subcommands first."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands."""
        return [name for name in COMMANDS if name in self.commands]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gke-inference {metadata.version('gke-inference')}")
        raise typer.Exit


def _empty_app() -> typer.Typer:
    app = typer.Typer(
        cls=_InOrder,
        name="gke-inference",
        help="Try the GKE inference blueprint on this machine, check it, and operate it.",
        epilog="Exit codes: 0 success, 1 a check failed, 2 error, 130 interrupted.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["--help", "-h"]},
        pretty_exceptions_enable=False,
    )

    @app.callback()
    def _group(
        version: Annotated[
            bool,
            typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
        ] = False,
    ) -> None:
        """Keep `gke-inference NAME` the form of the call when one command is loaded."""

    return app


def app_for(arguments: list[str]) -> typer.Typer:
    """Return the app with the commands that a command line needs.

    Args:
        arguments: Command line without the program's name.
    """
    named = [argument for argument in arguments if argument in COMMANDS]
    if not named:
        return list_app()  # help, or a wrong name: no command can run
    return build_app((named[0],) if arguments[0] == named[0] else COMMANDS)
