"""Match conditions of extension chains, in the subset of CEL that Google documents for requests.

Source: docs.cloud.google.com/service-extensions/docs/cel-matcher-language-reference. A condition
becomes a syntax tree; attributes of connections, backends and responses are rejected.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal

MAX_CHARACTERS: Final = 512

Type = Literal["string", "int", "bool"]

_ATTRIBUTES: Final = ("method", "host", "path", "query", "scheme")
_TESTS: Final = ("startsWith", "endsWith", "contains", "matches")
_CHANGES: Final = ("lowerAscii", "upperAscii")
_COMPARISONS: Final = ("==", "!=", "<=", ">=", "<", ">")
_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<string>[rR]?(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))
      | (?P<number>\d+)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<sign>&&|\|\||==|!=|<=|>=|[<>!.()\[\]+])
    )""",
    re.VERBOSE,
)
_NOT_RE2: Final = re.compile(r"\(\?<?[=!]|\\[1-9]")
_MAX_DEPTH: Final = 32
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


class CelError(ValueError):
    """The condition is not CEL, or uses an unsupported feature."""


@dataclass(frozen=True)
class Constant:
    """A literal."""

    value: str | int | bool


@dataclass(frozen=True)
class Attribute:
    """An attribute of the request; with `header`, the value of that header."""

    name: str
    """`method`, `host`, `path` (without the query), `query`, `scheme` or `headers`."""
    header: str = ""


@dataclass(frozen=True)
class Call:
    """An operator or a function."""

    function: str
    arguments: tuple["Expression", ...]
    """The first argument is the receiver of a function."""


Expression = Constant | Attribute | Call


def type_of(expression: Expression) -> Type:
    """Return the type of an expression's value."""
    if isinstance(expression, Attribute):
        return "string"
    if isinstance(expression, Constant):
        if isinstance(expression.value, bool):
            return "bool"
        return "int" if isinstance(expression.value, int) else "string"
    if expression.function in _CHANGES or expression.function == "+":
        return type_of(expression.arguments[0])
    return "int" if expression.function == "int" else "bool"


def parse(text: str) -> Expression:
    """Return the syntax tree of a match condition.

    Raises:
        CelError: the text is too long, not a condition, or outside the supported subset.
    """
    if len(text) > MAX_CHARACTERS:
        raise CelError(f"must have at most {MAX_CHARACTERS} characters, got {len(text)}")
    parser = _Parser(_tokens(text))
    found = parser.disjunction()
    parser.end()
    return _need(found, "bool", "a condition")


def _tokens(text: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    at = 0
    while text[at:].strip():
        match = _TOKEN.match(text, at)
        if match is None:
            raise CelError(f"cannot be read from {text[at:].strip()[:30]!r} on")
        kind = str(match.lastgroup)
        found.append((kind, match[kind]))
        at = match.end()
    return found


def _need(expression: Expression, wanted: Type, where: str) -> Expression:
    got = type_of(expression)
    if got != wanted:
        raise CelError(f"{where} must be a {wanted}, got a {got}")
    return expression


def _unquoted(token: str) -> str:
    if token[0] in "rR":
        return token[2:-1]
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), token[1:-1])


class _Parser:
    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _next(self) -> tuple[str, str]:
        if self._at == len(self._tokens):
            raise CelError("ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _take(self, sign: str) -> bool:
        if self._peek() != sign:
            return False
        self._at += 1
        return True

    def _expect(self, sign: str) -> None:
        _, got = self._next()
        if got != sign:
            raise CelError(f"must have {sign!r} where {got!r} is")

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise CelError(f"cannot be read from {self._peek()!r} on")

    def disjunction(self) -> Expression:
        found = self._conjunction()
        while self._take("||"):
            found = _logic("||", found, self._conjunction())
        return found

    def _conjunction(self) -> Expression:
        found = self._comparison()
        while self._take("&&"):
            found = _logic("&&", found, self._comparison())
        return found

    def _comparison(self) -> Expression:
        left = self._sum()
        operator = self._peek()
        if operator not in _COMPARISONS:
            return left
        self._at += 1
        right = self._sum()
        _need(right, type_of(left), f"the right side of {operator}")
        return Call(operator, (left, right))

    def _sum(self) -> Expression:
        found = self._unary()
        while self._take("+"):
            right = self._unary()
            if type_of(found) == "bool":
                raise CelError("the left side of + must be a string or an int, got a bool")
            found = Call("+", (found, _need(right, type_of(found), "the right side of +")))
        return found

    def _unary(self) -> Expression:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise CelError(f"must be nested at most {_MAX_DEPTH} deep")
        try:
            if self._take("!"):
                return Call("!", (_need(self._unary(), "bool", "what ! denies"),))
            return self._postfix(self._primary())
        finally:
            self._depth -= 1

    def _primary(self) -> Expression:
        kind, word = self._next()
        if kind == "string":
            return Constant(_unquoted(word))
        if kind == "number":
            return Constant(int(word))
        if word == "(":
            found = self.disjunction()
            self._expect(")")
            return found
        if word in {"true", "false"}:
            return Constant(word == "true")
        if word == "request":
            return self._attribute()
        if word == "int":
            self._expect("(")
            found = _need(self.disjunction(), "string", "the argument of int()")
            self._expect(")")
            return Call("int", (found,))
        raise CelError(f"supports attributes of the request, got {self._name(word)}")

    def _name(self, word: str) -> str:
        """Return a dotted name for a message."""
        while self._take("."):
            word += f".{self._next()[1]}"
        return word

    def _attribute(self) -> Expression:
        self._expect(".")
        _, name = self._next()
        if name in _ATTRIBUTES:
            return Attribute(name)
        if name != "headers":
            known = ", ".join(f"request.{each}" for each in ("headers[...]", *_ATTRIBUTES))
            raise CelError(f"supports {known}, got request.{name}")
        self._expect("[")
        kind, token = self._next()
        header = _unquoted(token) if kind == "string" else ""
        if not header or header != header.lower():
            raise CelError(f"must name a header in lower case, got {token}")
        self._expect("]")
        return Attribute("host") if header == "host" else Attribute("headers", header)

    def _postfix(self, found: Expression) -> Expression:
        while self._take("."):
            _, name = self._next()
            _need(found, "string", f"what {name}() is called on")
            self._expect("(")
            if name in _TESTS:
                found = Call(name, (found, self._pattern(name)))
            elif name in _CHANGES:
                found = Call(name, (found,))
            else:
                raise CelError(f"supports {', '.join((*_TESTS, *_CHANGES, 'int'))}, got {name}")
            self._expect(")")
        return found

    def _pattern(self, name: str) -> Expression:
        found = _need(self.disjunction(), "string", f"the argument of {name}()")
        if name == "matches" and isinstance(found, Constant):
            try:
                re.compile(str(found.value))
                if _NOT_RE2.search(str(found.value)):
                    raise re.error("not RE2")
            except re.error as error:
                text = f"matches() needs a regular expression, got {found.value!r} ({error})"
                raise CelError(text) from error
        return found


def _logic(operator: str, left: Expression, right: Expression) -> Expression:
    sides = (left, right)
    for side in sides:
        _need(side, "bool", f"each side of {operator}")
    return Call(operator, sides)
