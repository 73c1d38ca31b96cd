"""Links of Markdown pages, outside blocks of code."""

import re
from collections.abc import Callable, Iterator
from urllib.parse import unquote

_FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^()\s]+(?:\([^()]*\))?[^()\s]*)(\))")
_REFERENCE = re.compile(r"^(\[[^\]]+\]: )(\S+)()$", re.MULTILINE)
_ELSEWHERE = ("http://", "https://", "mailto:")


def links(text: str) -> Iterator[str]:
    """Yield the targets of a page's links into the repository, as written but unquoted."""
    for part in _FENCE.split(text)[::2]:
        for pattern in (_LINK, _REFERENCE):
            for _, target, _ in pattern.findall(part):
                if not target.startswith(_ELSEWHERE):
                    yield unquote(target)


def without_code(text: str) -> str:
    """Return a page without its blocks of code."""
    return "".join(_FENCE.split(text)[::2])


def with_links(text: str, target_of: Callable[[str], str]) -> str:
    """Return a page with other targets in its links into the repository.

    Args:
        text: Markdown.
        target_of: returns the new target of a link, given the one in the text.
    """

    def replaced(match: re.Match[str]) -> str:
        before, target, after = match.groups()
        if target.startswith(_ELSEWHERE):
            return match.group()
        return f"{before}{target_of(unquote(target))}{after}"

    parts = _FENCE.split(text)
    for index in range(0, len(parts), 2):
        for pattern in (_LINK, _REFERENCE):
            parts[index] = pattern.sub(replaced, parts[index])
    return "".join(parts)
