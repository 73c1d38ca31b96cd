"""The option `-o`: the form in which a command prints its result."""

import json
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
import yaml

from scripts.terminal.console import console

_UNBROKEN: Final = 10_000
"""Width of a console on which nothing wraps, in columns."""


class Output(StrEnum):
    """The form of a result."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def is_data(self) -> bool:
        """Whether another program reads the result."""
        return self in (Output.JSON, Output.YAML)


def _widen(output: Output) -> Output:
    if output is Output.WIDE:
        console.width = _UNBROKEN
    return output


OutputOption = Annotated[
    Output,
    typer.Option(
        "--format",
        "-o",
        callback=_widen,
        metavar="<form>",
        help="Form of the result: table, wide (a table without line breaks), json or yaml.",
    ),
]


def print_data(value: Any, output: Output) -> None:
    """Print a result for another program.

    Args:
        value: What `json` can write.
        output: `JSON` or `YAML`.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False)
    if output is Output.YAML:
        # read back, so that tuples and enumerations are what JSON makes of them
        text = yaml.safe_dump(json.loads(text), sort_keys=False, allow_unicode=True)
    typer.echo(text.rstrip("\n"))
