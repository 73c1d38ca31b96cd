"""Validation errors of input fields as values: the field, the rule, and the given value.

All validation code yields or raises it: the catalog, the rules of a stack, the model server and the
planner. Only this module formats messages.
"""

from typing import Any, Final


class _Unsaid:
    """Placeholder for the value of an error that shows none."""

    def __repr__(self) -> str:
        return "UNSAID"


UNSAID: Final[Any] = _Unsaid()
"""Value of an error that shows none."""


class Bare(str):
    """Text that a message shows without quotes."""

    __slots__ = ()


class InputError(ValueError):
    """A field that violates a rule. Errors with equal content are equal."""

    def __init__(self, path: str, rule: str, value: object = UNSAID, note: str = "") -> None:
        """Create the error.

        Args:
            path: The field, such as `models.chat.context`.
            rule: Rule that the field breaks, such as `must be at most 4`.
            value: Given value. Default: the message shows none.
            note: Text after the value, such as `; did you mean 'vllm'?`.
        """
        super().__init__(path, rule, value, note)
        self.path: Final = path
        self.rule: Final = rule
        self.value: Final = value
        self.note: Final = note

    @property
    def message(self) -> str:
        """The rule and the value, without the path: `must be at most 4, got 5`."""
        got = "" if self.value is UNSAID else f", got {shown(self.value)}"
        return f"{self.rule}{got}{self.note}"

    def at(self, path: str) -> "InputError":
        """Return the same error for another path, such as an option instead of a field."""
        return type(self)(path, self.rule, self.value, self.note)

    def sentence(self, separator: str = " ") -> str:
        """Return path, separator and message, or only the message if there is no path."""
        return f"{self.path}{separator}{self.message}" if self.path else self.message

    def __str__(self) -> str:
        """Return `PATH: RULE, got VALUE`, the line that a command prints."""
        return self.sentence(": ")

    def __eq__(self, other: object) -> bool:
        """Return whether the other is an error with the same path, rule, value and note."""
        return isinstance(other, InputError) and self.args == other.args

    def __hash__(self) -> int:
        """Return a hash of the shown text, as values need not be hashable."""
        return hash(str(self))


class UnknownName(InputError):
    """A field that names something which does not exist."""


def shown(value: object) -> str:
    """Return a value as shown in messages: text in quotes, other values as in YAML."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Bare):
        return str(value)
    if isinstance(value, str):
        return repr(str(value))  # of an enum, its value
    return str(value)


def yaml_problem(error: Exception) -> str:
    """Return what a YAML parser or the decoder of its text reports, as one line.

    The parser gets the text of a file and calls it `<unicode string>`, which is left out.
    """
    return " ".join(str(error).replace(' in "<unicode string>",', " at").split())
