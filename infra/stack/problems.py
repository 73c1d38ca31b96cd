"""Problems of a stack, which the product reports together."""

from collections.abc import Iterable, Sequence
from typing import Final

from pydantic import ValidationError

from gke_inference.catalogue.input_error import InputError, UnknownName
from gke_inference.catalogue.problems import Document
from infra.stack import Platform


class StackError(Exception):
    """An invalid stack, with one line per problem."""

    def __init__(self, problems: Iterable[InputError]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problem.sentence() for problem in self.problems))


_PLACES: Final = 3
"""Most other places that a message names."""


def once(problems: Iterable[InputError]) -> list[InputError]:
    """Return problems without those that follow from others, each mistake with one message.

    Names of what does not exist come alone: other rules speak of what is named. A field that is
    refused is not judged again, nor is the mapping or list that it is in: rules on these presume
    valid fields. What must not be set is not judged inside. Fields that break the same rule with
    the same value, such as each mention of a name, or need the same field are in the message of
    the first.

    Args:
        problems: Problems of the rules across fields, in stack order.
    """
    every = list(problems)
    found = [each for each in every if isinstance(each, UnknownName)] or every
    unset = [each.path for each in found if each.rule.startswith("must not be set")]
    by_path: dict[str, InputError] = {}
    for problem in found:
        if any(_is_inside(problem.path, path) for path in unset):
            continue
        if not any(_is_inside(path, problem.path) for path in by_path):
            by_path.setdefault(problem.path, problem)
    alike: dict[str, list[InputError]] = {}
    for problem in by_path.values():
        is_need = problem.rule.startswith("needs '")
        alike.setdefault(problem.rule if is_need else problem.message, []).append(problem)
    return [_joined(first, [each.path for each in others]) for first, *others in alike.values()]


def _is_inside(path: str, whole: str) -> bool:
    return path.startswith((f"{whole}.", f"{whole}["))


def _joined(problem: InputError, others: Sequence[str]) -> InputError:
    """Return a problem that names the other places that have it."""
    if not others:
        return problem
    named = [*others[:_PLACES]]
    if len(others) > _PLACES:
        named.append(f"{len(others) - _PLACES} more")
    note = f"{problem.note} (also {', '.join(named)})"
    return InputError(problem.path, problem.rule, problem.value, note)


_STACK: Final = Document(Platform.model_json_schema, "is not a field of a stack")


def problems_of(error: ValidationError) -> list[InputError]:
    """Return the problems that the validator found, in stack order."""
    return _STACK.problems_of(error)


def unread(error: Exception) -> str:
    """Return why a file cannot be read, without errno and path. The caller names the file."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    line = " ".join(reason.split())
    return line[:1].lower() + line[1:]
