"""What is wrong with one field of an input, as a value: the field, the rule, and what was given.

Everything that checks inputs yields or raises it: the catalogue, the rules of a stack, the model
server and the planner. Only this module makes a sentence of it.
"""

from typing import Any, Final


class _Unsaid:
    """Stands for the value of an error whose rule says all there is to say."""

    def __repr__(self) -> str:
        return "UNSAID"


UNSAID: Final[Any] = _Unsaid()
"""Of an error that does not show a value."""


class Bare(str):
    """Words that a message shows as they are; other texts are shown in quotes."""

    __slots__ = ()


class InputError(ValueError):
    """A field breaks a rule. Two errors are equal where all they say is equal."""

    def __init__(self, path: str, rule: str, value: object = UNSAID, note: str = "") -> None:
        """Take what is wrong.

        Args:
            path: The field, such as `models.chat.context`.
            rule: What the field must be, such as `must be at most 4`.
            value: What was given; by default the message shows no value.
            note: What follows the value, such as `; did you mean 'vllm'?`.
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
        """Return the same error of another path, such as an option instead of a field."""
        return InputError(path, self.rule, self.value, self.note)

    def sentence(self, separator: str = " ") -> str:
        """Return path, separator and message; the message alone where there is no path."""
        return f"{self.path}{separator}{self.message}" if self.path else self.message

    def __str__(self) -> str:
        """Return `PATH: RULE, got VALUE`, the line that a command prints."""
        return self.sentence(": ")

    def __eq__(self, other: object) -> bool:
        """Return whether the other is an error with the same path, rule, value and note."""
        return isinstance(other, InputError) and self.args == other.args

    def __hash__(self) -> int:
        """Return a hash of what is shown, as values need not be hashable."""
        return hash(str(self))


def shown(value: object) -> str:
    """Return a value as a message shows it: texts in quotes, and YAML's words for the rest."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Bare):
        return str(value)
    if isinstance(value, str):
        return repr(str(value))  # of an enum, its value
    return str(value)
