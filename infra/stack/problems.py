"""Problems of a stack, which the product reports together."""

from collections.abc import Iterable
from typing import Final

from pydantic import ValidationError

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import Document
from infra.stack import Platform


class StackError(Exception):
    """An invalid stack, with one line per problem."""

    def __init__(self, problems: Iterable[InputError]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problem.sentence() for problem in self.problems))


_STACK: Final = Document(Platform.model_json_schema, "is not a field of a stack")


def problems_of(error: ValidationError) -> list[InputError]:
    """Return the problems that the validator found, in stack order."""
    return _STACK.problems_of(error)


def unread(error: Exception) -> str:
    """Return why a file cannot be read, without errno and path. The caller names the file."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    line = " ".join(reason.split())
    return line[:1].lower() + line[1:]
