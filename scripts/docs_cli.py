"""The reference of the operators' program, from the program itself."""

import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer

from scripts.console import Exit
from scripts.main import GROUPS, build_app

_OPENING = """\
# The program `gke-inference`

The Makefile calls it; it stands in `.venv/bin` once any target has run.

Tables fit the terminal and cut no word: where it is narrow, sentences fold and the least columns
go into a line below their row. Through a pipe a row is one line, unless `COLUMNS` says how wide.
"""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _forms(parameter: Any) -> str:
    if parameter.__class__.__name__.endswith("Argument"):
        many = " …" if parameter.nargs == -1 else ""
        return f"`{parameter.name.upper()}`{many}"
    forms = [*parameter.opts, *parameter.secondary_opts]
    value = "" if parameter.is_flag else " VALUE"
    return " / ".join(f"`{form}{value}`" for form in forms)


def _values(parameter: Any) -> str:
    """Return the values a parameter has to choose from, where they are listed."""
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
    return f"`{value:g}`" if isinstance(value, float) else f"`{Path(str(value))}`"


def _section(name: str, command: Any) -> Iterator[str]:
    yield from (f"## {name}", "", " ".join(str(command.help or "").split()), "")
    if not command.params:
        return
    yield from ("| option | default | what |", "|---|---|---|")
    for parameter in command.params:
        text = _cell(f"{parameter.help or ''}{_values(parameter)}")
        yield f"| {_forms(parameter)} | {_default(parameter)} | {text} |"
    yield ""


def _exits() -> list[str]:
    rows = [f"| {code.value} | {code.meaning} |" for code in Exit]
    return ["", "| exit code | when |", "|---|---|", *rows]


def cli_page() -> str:
    """Return the page: a section for each subcommand with its options."""
    program: Any = typer.main.get_command(build_app())
    commands: dict[str, Any] = program.commands
    lines: list[str] = []
    for group, names in GROUPS.items():
        lines += ["", f"| {group} | |", "|---|---|"]
        lines += [
            f"| [`{name}`](#{name}) | {_cell(str(commands[name].help or ''))} |" for name in names
        ]
    lines.append("")
    for name, command in commands.items():
        lines += _section(name, command)
    return _OPENING + "\n".join([*_exits(), *lines])
