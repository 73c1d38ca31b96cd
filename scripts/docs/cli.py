"""The reference of `gke-inference`, from the app itself."""

import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from scripts.app import GROUPS, PURPOSES, build_app

_OPENING = """\
# Commands of `gke-inference`

Any target of the Makefile installs the program in `.venv/bin`. The
[exit codes](exit-codes.md) are the same for every command.

`gke-inference --install-completion` sets up completion of commands, options and stacks for bash,
zsh, fish or PowerShell.

Tables wrap to the terminal width. In narrow terminals, low-priority columns move to a second line.
Piped output keeps every column in its row, unless `COLUMNS` gives a width; only sentences wrap.
"""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def first_line(text: str) -> str:
    """Return the first paragraph of a help text as the cell of a table."""
    return _cell(inspect.cleandoc(text).split("\n\n")[0])


def _forms(parameter: Any) -> str:
    if parameter.__class__.__name__.endswith("Argument"):
        many = " …" if parameter.nargs == -1 else ""
        return f"`{parameter.metavar or parameter.name.upper()}`{many}"
    forms = [*parameter.opts, *parameter.secondary_opts]
    value = "" if parameter.is_flag else " VALUE"
    return " / ".join(f"`{form}{value}`" for form in forms)


def _values(parameter: Any) -> str:
    """Return the values of a parameter that accepts only some."""
    annotation: Any = parameter.type_descriptor.annotation
    kind: Any = next(iter(getattr(annotation, "__args__", ())), annotation)
    if inspect.isclass(kind) and issubclass(kind, Enum):
        return " One of " + ", ".join(f"`{member.value}`" for member in kind) + "."
    return ""


def _default(parameter: Any) -> str:
    value: Any = parameter.default
    if parameter.required:
        return "required"
    if value is None or value is False or value in ("", ()):
        return ""
    shown: Any = value.value if isinstance(value, Enum) else value
    if shown is True and parameter.secondary_opts:
        return f"`{parameter.opts[0]}`"
    return f"`{shown:g}`" if isinstance(shown, float) else f"`{Path(str(shown))}`"


def section(name: str, command: Any, level: int = 2) -> Iterator[str]:
    """Yield the lines of a command: its help, its options and the sections of its subcommands."""
    yield from (f"{'#' * level} {name}", "", _cell(str(command.help or "")), "")
    if command.params:
        yield from ("| option | default | description |", "|---|---|---|")
        for parameter in command.params:
            text = _cell(f"{parameter.help or ''}{_values(parameter)}")
            yield f"| {_forms(parameter)} | {_default(parameter)} | {text} |"
        yield ""
    for subcommand, body in getattr(command, "commands", {}).items():
        yield from section(f"{name} {subcommand}", body, level + 1)


def cli_page() -> str:
    """Return the page: a section for each command and subcommand, with its options."""
    program: Any = typer.main.get_command(build_app())
    commands: dict[str, Any] = program.commands
    lines: list[str] = []
    for group, names in GROUPS.items():
        lines += ["", f"**{group}.** {PURPOSES[group]}", "", "| command | description |"]
        lines += ["|---|---|"]
        lines += [
            f"| [`{name}`](#{name}) | {first_line(str(commands[name].help or ''))} |"
            for name in names
        ]
    lines.append("")
    for group in GROUPS.values():
        for name in group:
            lines += section(name, commands[name])
    return _OPENING + "\n".join(lines)
