"""Expressions of Cloud Armor's custom rules: the part of CEL that the platform uses.

Comparisons of headers, paths and methods, combined with `&&`, `||`, `!` and parentheses
(docs.cloud.google.com/armor/docs/rules-language-reference). An expression has at most five
subexpressions, and its attributes are those of a request.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from twin.world.rules import all_rules

_HEADER: Final = r"request\.headers\[(?:'(?P<h1>[^']*)'|\"(?P<h2>[^\"]*)\")\]"
_TEXT: Final = r"(?:'(?P<t1>[^']*)'|\"(?P<t2>[^\"]*)\")"
_LARGEST: Final = 2**63 - 1


class ExpressionError(ValueError):
    """The expression is wrong, or the twin cannot evaluate it; one line."""


@dataclass(frozen=True)
class HasHeader:
    """Whether a request has a header."""

    header: str


@dataclass(frozen=True)
class HeaderNumber:
    """Whether the number in a header is in a range, its ends included.

    A header without a number is no match: CEL fails, and the rule does not match.
    """

    header: str
    low: int
    high: int


@dataclass(frozen=True)
class HeaderIs:
    """Whether a header has a value."""

    header: str
    value: str


@dataclass(frozen=True)
class Path:
    """Whether a path, without its query, is a text or starts with it."""

    text: str
    is_prefix: bool


@dataclass(frozen=True)
class Not:
    """The opposite."""

    of: "Expression"


@dataclass(frozen=True)
class All:
    """All of several."""

    of: tuple["Expression", ...]


@dataclass(frozen=True)
class Any:
    """Any of several."""

    of: tuple["Expression", ...]


Expression = HasHeader | HeaderNumber | HeaderIs | Path | Not | All | Any

_ATOMS: Final = {
    "has": re.compile(rf"has\(\s*{_HEADER}\s*\)"),
    "number": re.compile(rf"int\(\s*{_HEADER}\s*\)\s*(?P<op>[<>]=?|==)\s*(?P<n>-?[0-9]+)"),
    "header": re.compile(rf"{_HEADER}\s*==\s*{_TEXT}"),
    "prefix": re.compile(rf"request\.path\.startsWith\(\s*{_TEXT}\s*\)"),
    "path": re.compile(rf"request\.path\s*==\s*{_TEXT}"),
    "method": re.compile(rf"request\.method\s*==\s*{_TEXT}"),
}


def parse(text: str) -> Expression:
    """Return an expression.

    Raises:
        ExpressionError: It is not valid, has too many subexpressions, or has an attribute or an
            operation that the twin does not know.
    """
    reader = _Reader(text)
    found = reader.any()
    if reader.rest:
        raise ExpressionError(f"must be an expression that the twin knows, got {reader.rest!r}")
    most = int(all_rules()["armor.expression"].value)
    if (count := sum(1 for _ in _atoms(found))) > most:
        raise ExpressionError(f"must have at most {most} subexpressions, got {count}")
    return found


def _atoms(found: Expression) -> Iterator[Expression]:
    match found:
        case Not():
            yield from _atoms(found.of)
        case All() | Any():
            for each in found.of:
                yield from _atoms(each)
        case _:
            yield found


class _Reader:
    def __init__(self, text: str) -> None:
        self.rest = text.strip()

    def _take(self, token: str) -> bool:
        if not self.rest.startswith(token):
            return False
        self._skip(len(token))
        return True

    def _skip(self, count: int) -> None:
        self.rest = self.rest[count:].lstrip()

    def any(self) -> Expression:
        parts = [self._all()]
        while self._take("||"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else Any(tuple(parts))

    def _all(self) -> Expression:
        parts = [self._one()]
        while self._take("&&"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _one(self) -> Expression:
        if self._take("!"):
            return Not(self._one())
        if self._take("("):
            found = self.any()
            if not self._take(")"):
                raise ExpressionError(f"must have a closing parenthesis, got {self.rest!r}")
            return found
        for kind, pattern in _ATOMS.items():
            found_atom = pattern.match(self.rest)
            if found_atom is not None:
                self._skip(found_atom.end())
                return _atom(kind, found_atom)
        raise ExpressionError(f"must be an expression that the twin knows, got {self.rest!r}")


def _atom(kind: str, found: re.Match[str]) -> Expression:
    groups = found.groupdict()
    header = str(groups.get("h1") or groups.get("h2") or "")
    text = str(groups.get("t1") or groups.get("t2") or "")
    if header != header.lower():
        raise ExpressionError(f"must name headers in lowercase, got {header!r}")
    match kind:
        case "has":
            return HasHeader(header)
        case "number":
            return _number(header, groups["op"], int(groups["n"]))
        case "header":
            return HeaderIs(header, text)
        case "method":
            return HeaderIs(":method", text)
        case _:
            return Path(text, is_prefix=kind == "prefix")


def _number(header: str, operator: str, number: int) -> HeaderNumber:
    match operator:
        case ">":
            return HeaderNumber(header, number + 1, _LARGEST)
        case ">=":
            return HeaderNumber(header, number, _LARGEST)
        case "<":
            return HeaderNumber(header, -_LARGEST, number - 1)
        case "<=":
            return HeaderNumber(header, -_LARGEST, number)
        case _:
            return HeaderNumber(header, number, number)
