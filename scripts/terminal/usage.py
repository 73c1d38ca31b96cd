"""Errors in command lines, in the common form: option, rule, value."""

from enum import Enum
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from typer.exceptions import TyperException

from gke_inference.catalogue.problems import one_of, suggest

_BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
_KINDS = {"int": "a whole number", "float": "a number", "bool": "true or false", "path": "a path"}
_EXTRA_ARGUMENTS = "Got unexpected extra argument"
_UNKNOWN_COMMAND, _MISSING_COMMAND = "No such command", "Missing command"


def usage_line(error: TyperException) -> str:
    """Return the line for an error in a command line.

    Args:
        error: Error of the command-line library.
    """
    problem: Any = error
    if getattr(problem, "param", None) is not None:
        return f"{_name(problem.param)}: {_rule(problem)}"
    option: str | None = getattr(problem, "option_name", None)
    context: Any = getattr(problem, "ctx", None)
    command = str(context.command_path) if context else "gke-inference"
    if option is not None and hasattr(problem, "possibilities"):
        hint = suggest(option, _options(problem)) or f"; `{command} --help` lists the options"
        return f"{option}: is not an option of {command}{hint}"
    if option is not None:
        takes_none = "not take" in error.message
        return f"{option}: {'takes no value' if takes_none else 'must have a value, got none'}"
    if context and error.message.startswith(_UNKNOWN_COMMAND):
        word = error.message.removeprefix(_UNKNOWN_COMMAND).split("'")[1]
        return str(one_of("COMMAND", word, list(context.command.commands)))
    if context and error.message.startswith(_MISSING_COMMAND):
        return f"COMMAND: is required (one of {', '.join(context.command.commands)})"
    return f"{command}: {_further(error.message) or _plain(error.message)}"


def _further(message: str) -> str:
    """Return the rule about surplus arguments, or an empty string for another message."""
    if not message.startswith(_EXTRA_ARGUMENTS):
        return ""
    words = message.partition(" (")[2].removesuffix(")")
    return f"must have no further arguments, got {words!r}"


def _options(error: Any) -> list[str]:
    params: list[Any] = error.ctx.command.params if error.ctx else []
    return [option for param in params for option in param.opts if option.startswith("--")]


def _name(param: Any) -> str:
    """Return the name of a parameter: an option with dashes, an argument in capitals."""
    words: list[str] = list(param.opts)
    longest = max(words, key=len)
    return longest if longest.startswith("-") else str(param.metavar or param.name).upper()


def _rule(error: Any) -> str:
    cause = error.__cause__
    if isinstance(cause, ValidationError):
        return _broken(cause.errors(include_url=False)[0], error.param)
    if error.message:
        return _plain(error.message)
    known = _choices(error.param)
    meaning = f"one of {', '.join(known)}" if known else str(error.param.help or "").rstrip(".")
    return f"is required ({meaning})" if meaning else "is required"


def _broken(details: ErrorDetails, param: Any) -> str:
    kind, value = details["type"], details["input"]
    known = _choices(param)
    if known:
        return one_of("", str(value), known).message
    if kind in _BOUNDS:
        words, name = _BOUNDS[kind]
        return f"must be {words} {details.get('ctx', {})[name]:g}, got {value}"
    wanted = _KINDS.get(kind.partition("_")[0])
    if wanted is not None:
        return f"must be {wanted}, got {value!r}"
    return f"{_plain(details['msg'])}, got {value!r}"


def _choices(param: Any) -> list[str]:
    choices: tuple[Any, ...] = param.type_descriptor.choices or ()
    plain: list[Any] = [one.value if isinstance(one, Enum) else one for one in choices]
    return [str(one) for one in plain]


def _plain(message: str) -> str:
    """Return a library message without capital and full stop."""
    line = " ".join(message.split()).rstrip(".")
    return line[:1].lower() + line[1:]
