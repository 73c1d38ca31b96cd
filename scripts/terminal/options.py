"""Shared options of commands, and checks of their values with one-line errors."""

import math
from collections.abc import Iterable, Sequence
from glob import escape
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from gke_inference.catalogue.accelerators import accelerator_names, regions_of
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import one_of
from gke_inference.settings.fields import EmailAddress, RegionName
from infra.plan import Plan, resolve
from infra.reading.load import read, stack_names
from infra.stack import Platform
from infra.stack.problems import StackError
from scripts.terminal.console import CommandError
from twin.host.paths import REPOSITORY

STACK_HELP = "Stack to use: NAME of a file stacks/Pulumi.NAME.yaml."


def _stacks(incomplete: str) -> list[str]:
    """Return the stacks whose name starts with what the shell has so far."""
    return [name for name in stack_names() if name.startswith(incomplete)]


StackOption = Annotated[str, typer.Option(help=STACK_HELP, autocompletion=_stacks)]
StacksOption = Annotated[
    list[str] | None,
    typer.Option(help="Only this stack; repeat for more. Default: all.", autocompletion=_stacks),
]
CheckOption = Annotated[
    bool, typer.Option("--check", help="Write nothing; exit 1 if a file is out of date.")
]

_EMAIL: TypeAdapter[str] = TypeAdapter(EmailAddress)
_REGION: TypeAdapter[str] = TypeAdapter(RegionName)


def check_words(option: str, given: Sequence[str] | None, known: Iterable[str]) -> tuple[str, ...]:
    """Return the values of an option; empty if it was omitted.

    Args:
        option: Option, such as `--region`.
        given: Values of the option.
        known: Values that the option accepts.

    Raises:
        CommandError: A value is unknown; the message suggests the nearest.
    """
    words = list(known)
    for word in given or ():
        if word not in words:
            raise CommandError(str(one_of(option, word, words)))
    return tuple(given or ())


def check_one(option: str, given: str, known: Iterable[str]) -> str:
    """Return the one value of an option.

    Raises:
        CommandError: The value is unknown; the message suggests the nearest.
    """
    return check_words(option, [given], known)[0]


def check_stack(name: str, option: str = "--stack") -> None:
    """Check that a stack has a file.

    Args:
        name: Name of the stack.
        option: Option that gave the name.

    Raises:
        CommandError: It has none; the message suggests the nearest, or how to get an example.
    """
    known = stack_names()
    found = sorted((REPOSITORY / "docs/examples").glob(f"*/Pulumi.{escape(name)}.yaml"))
    if name in known or not found:
        check_one(option, name, known)
        return
    folder = found[0].parent
    files = "*" if len(list(folder.glob("Pulumi.*.yaml"))) > 1 else name
    raise CommandError(
        f"{option}: must be one of {', '.join(known)}, got {name!r}; for the example, first run: "
        f"cp {folder.relative_to(REPOSITORY)}/Pulumi.{files}.yaml stacks/"
    )


def stack_of(name: str, option: str = "--stack", *, with_digests: bool = True) -> Platform:
    """Return a stack, read from its file.

    Args:
        name: Name of the stack.
        option: Option that gave the name.
        with_digests: Whether images must have the digests that a deployment needs.

    Raises:
        CommandError: The stack does not exist or is invalid; the message has a line per problem.
    """
    check_stack(name, option)
    try:
        return read(name, with_digests=with_digests)
    except StackError as error:
        raise CommandError(str(error)) from None


def plan_of(name: str) -> Plan:
    """Return a stack, read from its file and resolved.

    Raises:
        CommandError: The stack does not exist or is invalid; the message has a line per problem.
    """
    return resolve(stack_of(name))


def check_positive(option: str, value: float) -> float:
    """Return the number of an option.

    Raises:
        CommandError: The number is not above 0, or not finite.
    """
    if not 0 < value < math.inf:
        raise CommandError(f"{option}: must be a number above 0, got {value:g}")
    return value


def check_region(option: str, given: str) -> str:
    """Return a region, possibly without accelerators: a bucket can be anywhere.

    Raises:
        CommandError: The value does not have the form of a region.
    """
    try:
        return _REGION.validate_python(given)
    except ValidationError:
        raise CommandError(f"{option}: must be a region such as us-east5, got {given!r}") from None


def check_email(option: str, given: str | None) -> str | None:
    """Return the address of a person or a group, or None if omitted.

    Raises:
        CommandError: The value does not have the form of an address.
    """
    if given is None:
        return None
    try:
        return _EMAIL.validate_python(given)
    except ValidationError:
        rule = "must be an address such as ops@example.com"
        raise CommandError(f"{option}: {rule}, got {given!r}") from None


def regions() -> list[str]:
    """Return the regions with an accelerator, according to the catalog."""
    return sorted({region for name in accelerator_names() for region in regions_of(name)})


def option_of(error: InputError, names: dict[str, str] | None = None) -> str:
    """Return an input error as a line with the option instead of the field.

    Args:
        error: Error about one field, or about several fields.
        names: Options by field, if they differ from the field with dashes.
    """
    field = error.path
    usual = f"--{field.replace('_', '-')}" if field.isidentifier() else field
    return str(error.at((names or {}).get(field, usual)))
