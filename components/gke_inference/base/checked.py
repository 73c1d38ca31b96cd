"""Inputs of components, checked once, with the names of fields as other languages spell them."""

from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

import pulumi

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import Location
from gke_inference.catalogue.typed_inputs import InputErrors, typed_inputs

from .inputs import camel

Shape = TypeVar("Shape")


def checked(shape: type[Shape], args: object, where: Location = ()) -> Shape:
    """Return the inputs of a component with the types that its `TypedDict` declares.

    Raises:
        pulumi.InputPropertiesError: Inputs are unknown, missing or break a rule.
    """
    try:
        return typed_inputs(shape, args, where=where, spell=camel)
    except InputErrors as error:
        raise _error(error.problems) from None


def keep(rules: Iterable[InputError]) -> None:
    """Refuse inputs that break rules between fields, whose paths are in Python's spelling.

    Raises:
        pulumi.InputPropertiesError: There is a problem.
    """
    problems = [problem.at(camel_path(problem.path)) for problem in rules]
    if problems:
        raise _error(problems)


def camel_path(path: str, maps: Collection[str] = ()) -> str:
    """Return `rungs[0].max_run_hours` as `rungs[0].maxRunHours`.

    Args:
        path: Path in Python's spelling.
        maps: Fields whose keys users choose: what follows one of them is not changed.
    """
    parts = path.split(".")
    ends = [at + 1 for at, part in enumerate(parts) if part in maps]
    end = ends[0] if ends else len(parts)
    return ".".join([*map(camel, parts[:end]), *parts[end:]])


def _error(
    problems: Sequence[InputError],
) -> pulumi.InputPropertyError | pulumi.InputPropertiesError:
    """Return problems as Pulumi's error of inputs: of one input, or of several."""
    if len(problems) == 1:
        return pulumi.InputPropertyError(problems[0].path, problems[0].message)
    details = [
        pulumi.InputPropertyErrorDetails(property_path=each.path, reason=each.message)
        for each in problems
    ]
    return pulumi.InputPropertiesError("; ".join(each.sentence() for each in problems), details)
