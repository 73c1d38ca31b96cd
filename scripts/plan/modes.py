"""The modes of `gke-inference plan`, and the options that each one uses."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

import typer

from gke_inference.catalogue.input_error import shown
from scripts.terminal.console import CommandError

_GIVEN = ("COMMANDLINE", "ENVIRONMENT")
"""Names of sources of a parameter. Typer has its own copy of the enumeration of Click."""
_HARDWARE = frozenset({"accelerator", "output", "model", "provisioning", "rate", "region", "rows"})


class Mode(StrEnum):
    """What a command plans; the value ends the sentence of an error."""

    CLAIMS = "with --claims"
    ERRORS = "with --errors or --against"
    STACK = "with --stack"
    IMAGES = "for a model that generates images or videos"
    TEXT = "without --stack"


_OF_STACK = frozenset({"budget", "limits", "load", "stack"})
_USED: Mapping[Mode, Collection[str]] = {
    Mode.CLAIMS: frozenset({"output", "published"}),
    Mode.ERRORS: frozenset({"against", "errors"}),
    Mode.STACK: _OF_STACK
    | {"output", "calibration", "given", "made", "measured", "utilisation", "write"},
    Mode.IMAGES: _HARDWARE,
}
"""Parameters of a mode; text takes all but those of a stack."""
_NEEDS = {
    "image_size": ("images",),
    "name": ("write",),
    "pick": ("explain", "write"),
}
"""Parameters that have an effect only with one of others."""
_WITHOUT_DATA = ("chart", "conversations", "explain")


@dataclass(frozen=True)
class Given:
    """A given option."""

    option: str
    """The option, or `MODEL`."""
    value: Any

    def refusal(self, rule: str) -> CommandError:
        """Return the error that refuses it; a flag has no value to show."""
        got = "" if isinstance(self.value, bool) else f", got {shown(self.value)}"
        return CommandError(f"{self.option}: {rule}{got}")


def given_options(context: typer.Context | None) -> dict[str, Given]:
    """Return the given options by parameter; none without a command line."""
    found: dict[str, Given] = {}
    if context is None:
        return found
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is not None and source.name in _GIVEN:
            is_option = parameter.param_type_name == "option"
            label = parameter.opts[0] if is_option else "MODEL"
            value: Any = context.params[name]
            found[name] = Given(
                label, cast("list[Any]", value)[0] if isinstance(value, list) else value
            )
    return found


def refuse_unused(mode: Mode, given: Mapping[str, Given]) -> None:
    """Refuse the first option that has no effect.

    Args:
        mode: What the command plans.
        given: Given options, by parameter.

    Raises:
        CommandError: One of them has none.
    """
    used = _USED.get(mode)
    for name, one in given.items():
        if name in _OF_STACK if used is None else name not in used:
            raise one.refusal(f"must be omitted {mode.value}")
    if mode is not Mode.TEXT:
        return
    for name, others in _NEEDS.items():
        if name in given and not any(other in given for other in others):
            names = " or ".join(f"--{other}" for other in others)
            raise given[name].refusal(f"must be omitted without {names}")
    output = given.get("output")
    for name in _WITHOUT_DATA:
        if name in given and output is not None and output.value.is_data:
            raise given[name].refusal(f"must be omitted with -o {output.value}")
