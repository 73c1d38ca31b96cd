"""Reads YAML that a user wrote."""

from typing import Any, Final, cast

import yaml
from yaml.composer import ComposerError

_DEEPEST: Final = 100
"""Levels of nesting. Files of users have about ten; Python's own limit ends in no message."""


class UserLoader(yaml.SafeLoader):
    """Refuses what no reader after it can walk through: loops, and endless nesting."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._around: list[str | None] = []
        """Anchors of the nodes around the present one; None for a node without one."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node.

        Raises:
            ComposerError: It refers to a node that it is in, or is nested too deep.
        """
        event = cast("Any", self).peek_event()  # without types
        anchor, mark = event.anchor, event.start_mark  # an event of a node has both
        if self.check_event(yaml.AliasEvent):
            if anchor in self._around:
                raise ComposerError(None, None, f"anchor {anchor!r} contains itself", mark)
            return super().compose_node(parent, index)
        if len(self._around) == _DEEPEST:
            raise ComposerError(None, None, f"nested more than {_DEEPEST} levels", mark)
        self._around.append(anchor)
        try:
            return super().compose_node(parent, index)
        finally:
            self._around.pop()


def user_yaml(text: str) -> Any:
    """Return the content of YAML that a user wrote.

    Raises:
        yaml.YAMLError: It is no YAML, or contains itself.
        ValueError: It has a date or number that Python refuses.
    """
    return yaml.load(text, Loader=UserLoader)  # noqa: S506 - it derives from SafeLoader
