"""Reads YAML that a user wrote."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import yaml
from yaml.composer import Composer, ComposerError
from yaml.constructor import SafeConstructor
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner

from .input_error import InputError, yaml_problem

_DEEPEST: Final = 100
"""Levels of nesting. Files of users have about ten; Python's own limit ends in no message."""
_MOST_REPEATED: Final = 100_000
"""Values that the aliases of a file may repeat. Nested aliases multiply: 9 lines of 9 aliases each
are 387 million values, which the file's reader would copy one by one."""


if TYPE_CHECKING or not yaml.__with_libyaml__:
    _Loader = yaml.SafeLoader
else:

    class _Events(Reader, Scanner, Parser):
        """Parses in Python."""

        def __init__(self, text: str) -> None:
            Reader.__init__(self, text)
            Scanner.__init__(self)
            Parser.__init__(self)

    class _Loader(Composer, yaml.CSafeLoader):
        """Parses in C, which takes a seventh of the time, and composes in Python.

        What is refused is parsed again in Python, whose messages quote the line, and which accepts
        the escapes of JSON for a character beyond U+FFFF. C also accepts a tab inside of a line, as
        the engine does.
        """

        def __init__(self, text: str) -> None:
            self._text = text
            self._is_in_c = not text.startswith("\ufeff")  # which it does not count in positions
            try:
                yaml.CSafeLoader.__init__(self, text)
            except UnicodeEncodeError:
                self._is_in_c = False
            if not self._is_in_c:
                self._parse_in_python()
            Composer.__init__(self)

        def _parse_in_python(self) -> None:
            self._is_in_c = False
            events = _Events(self._text)
            self.check_event, self.peek_event = events.check_event, events.peek_event
            self.get_event = events.get_event

        def get_single_node(self) -> Any:
            return self._tried(super().get_single_node)

        def get_single_data(self) -> Any:
            return self._tried(super().get_single_data)

        def _tried(self, read: Any) -> Any:
            try:
                return read()
            except yaml.YAMLError:
                if not self._is_in_c:
                    raise
            self._parse_in_python()
            Composer.__init__(self)
            SafeConstructor.__init__(self)
            return read()


class UserLoader(_Loader):
    """Refuses what no reader after it can walk through: loops, endless nesting and repetition."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._around: list[str | None] = []
        """Anchors of the nodes around the present one; None for a node without one."""
        self._values = 0
        """Values so far, with those that aliases repeat."""
        self._sizes: dict[str, int] = {}
        """Values of the node of an anchor, likewise."""
        self._repeated = 0

    def compose_document(self) -> Any:
        """Return the next document, which may be read a second time."""
        self._values = self._repeated = 0
        return super().compose_document()

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node.

        Raises:
            ComposerError: It refers to a node that it is in, is nested too deep, or repeats too
                many values.
        """
        event = cast("Any", self).peek_event()  # without types
        anchor, mark = event.anchor, event.start_mark  # an event of a node has both
        if self.check_event(yaml.AliasEvent):
            if anchor in self._around:
                raise ComposerError(None, None, f"anchor {anchor!r} contains itself", mark)
            size = self._sizes.get(anchor, 0)  # an unknown anchor is refused below
            self._values += size
            self._repeated += size
            if self._repeated > _MOST_REPEATED:
                rule = f"aliases repeat more than {_MOST_REPEATED:,} values"
                raise ComposerError(None, None, rule, mark)
            return super().compose_node(parent, index)
        if len(self._around) == _DEEPEST:
            raise ComposerError(None, None, f"nested more than {_DEEPEST} levels", mark)
        before = self._values
        self._values += 1
        self._around.append(anchor)
        try:
            return super().compose_node(parent, index)
        finally:
            self._around.pop()
            if anchor is not None:
                self._sizes[anchor] = self._values - before


def user_yaml(text: str) -> Any:
    """Return the content of YAML that a user wrote.

    Raises:
        yaml.YAMLError: It is no YAML, or contains itself.
        ValueError: It has a date or number that Python refuses.
    """
    return yaml.load(text, Loader=UserLoader)  # noqa: S506 - it derives from SafeLoader


def user_file(path: Path) -> Any:
    """Return the content of a YAML file that a user wrote.

    Raises:
        InputError: It is no YAML, or has a date or number that Python refuses.
        OSError: It cannot be read.
    """
    try:
        return user_yaml(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(str(path), f"must be YAML: {yaml_problem(error)}") from None
