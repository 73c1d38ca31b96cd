"""Inputs of components, checked once, with the names of fields as other languages spell them."""

from collections.abc import Iterable
from typing import NoReturn, TypeVar

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
        refuse(error.problems)


def keep(rules: Iterable[InputError]) -> None:
    """Refuse inputs that break rules between fields, whose paths are in Python's spelling.

    Raises:
        pulumi.InputPropertiesError: There is a problem.
    """
    problems = [problem.at(camel_path(problem.path)) for problem in rules]
    if problems:
        refuse(problems)


def camel_path(path: str) -> str:
    """Return `rungs[0].max_run_hours` as `rungs[0].maxRunHours`."""
    return ".".join(camel(part) for part in path.split("."))


def refuse(problems: Iterable[InputError]) -> NoReturn:
    """Raise problems as Pulumi's error of inputs: of one input, or of several.

    Raises:
        pulumi.InputPropertyError: There is one problem.
        pulumi.InputPropertiesError: There are several.
    """
    found = list(problems)
    if len(found) == 1:
        raise pulumi.InputPropertyError(found[0].path, found[0].message)
    details = [
        pulumi.InputPropertyErrorDetails(property_path=each.path, reason=each.message)
        for each in found
    ]
    raise pulumi.InputPropertiesError("inputs break rules", details)
