"""The option `--on`: whether a command works on the twin or in Google Cloud."""

from enum import StrEnum
from typing import Annotated, Final, Self

import typer

from scripts.terminal.console import errors

VARIABLE: Final = "GKE_INFERENCE_ON"
ON_TWIN: Final = "On the twin"


class Where(StrEnum):
    """Where a command works."""

    TWIN = "twin"
    CLOUD = "cloud"

    @classmethod
    def of(cls, *, is_cloud: bool) -> Self:
        """Return the place that is, or is not, Google Cloud."""
        return cls("cloud" if is_cloud else "twin")

    @property
    def is_cloud(self) -> bool:
        """Whether the command works in Google Cloud."""
        return self is Where.CLOUD

    @property
    def is_twin(self) -> bool:
        """Whether the command works on the twin."""
        return self is Where.TWIN

    @property
    def option(self) -> str:
        """The option as a suggested command needs it, with a space before; empty if default."""
        return "" if self is Where.TWIN else f" --on {self.value}"


OnOption = Annotated[
    Where,
    typer.Option(
        "--on",
        envvar=VARIABLE,
        help="Where to work: on the twin, or in the stack's project in Google Cloud, with"
        " application default credentials.",
    ),
]


def say_where(where: Where, project: str = "") -> None:
    """Say where a command works, on the standard error stream: results may be read by a program.

    Args:
        where: Where it works.
        project: Project in Google Cloud; the twin has a project of the same name.
    """
    place = f"In Google Cloud, project {project}" if where.is_cloud else ON_TWIN
    errors.print(place, style="dim", markup=False)
