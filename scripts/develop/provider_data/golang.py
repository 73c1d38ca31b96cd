"""Expressions of Go source: literals, calls and names, as far as schemas of resources use them."""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(
    r"(?P<space>\s+|//[^\n]*|/\*.*?\*/)"
    r"|(?P<raw>`[^`]*`)"
    r'|(?P<text>"(?:\\.|[^"\\\n])*")'
    r"|(?P<rune>'(?:\\.|[^'\\\n])+')"
    r"|(?P<number>0x[0-9a-fA-F]+|\d+\.\d+(?:e[+-]?\d+)?|\d+)"
    r"|(?P<word>[A-Za-z_]\w*)"
    r"|(?P<mark>:=|\.\.\.|&&|\|\||[=!<>]=|<-|\+\+|.)",
    re.DOTALL,
)
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
_PREFIXES = frozenset("&!-*")
_OPERATORS = frozenset(["+", "-", "*", "/", "&&", "||", "==", "!=", "<", ">", "<=", ">=", "%", "|"])


class GoError(Exception):
    """Source that is not understood."""


@dataclass(frozen=True)
class Token:
    """A token with its kind: raw, text, rune, number, word or mark."""

    kind: str
    text: str


@dataclass(frozen=True)
class Name:
    """A name such as `schema.TypeString`."""

    text: str


@dataclass(frozen=True)
class Call:
    """A call; `name` is empty if an expression is called."""

    name: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class Composite:
    """A composite literal: its type, and its keys (None in a list) with their values."""

    type: str
    items: tuple[tuple[Any, Any], ...]

    def get(self, key: str) -> Any:
        """Return the value of a field, or None."""
        return next((value for name, value in self.items if name == Name(key)), None)


@dataclass(frozen=True)
class Code:
    """Anything else, such as a function or an operation: its tokens, and its operands."""

    text: str
    parts: tuple[Any, ...] = ()


@dataclass
class Package:
    """The declarations of a Go package that expressions can name."""

    functions: dict[str, list[Token]] = field(default_factory=dict[str, list[Token]])
    """Body of each function, without its braces."""
    values: dict[str, list[Token]] = field(default_factory=dict[str, list[Token]])
    """Tokens of the value of each variable and constant, and what follows them."""

    def add(self, source: str) -> None:
        """Add the declarations of a file."""
        tokens = scan(source)
        at = 0
        while at < len(tokens):
            at = self._declaration(tokens, at)

    def _declaration(self, tokens: list[Token], at: int) -> int:
        word = tokens[at].text
        if word == "func" and tokens[at + 1].kind == "word":
            body = _next_at_top(tokens, at, "{")
            end = closing(tokens, body)
            self.functions[tokens[at + 1].text] = tokens[body + 1 : end]
            return end + 1
        if word in ("var", "const"):
            is_group = tokens[at + 1].text == "("
            end = closing(tokens, at + 1) if is_group else len(tokens)
            self._values(tokens[at + 1 + is_group : end], only_first=not is_group)
            return end + 1 if is_group else at + 2
        return (closing(tokens, at) if word in _OPEN else at) + 1

    def _values(self, tokens: list[Token], *, only_first: bool) -> None:
        depth = 0
        for at, token in enumerate(tokens):
            depth += (token.text in _OPEN) - (token.text in _CLOSE)
            if token.text == "=" and depth == 0 and token.kind == "mark":
                named = tokens[0] if only_first else _name_before(tokens, at)
                self.values.setdefault(named.text, tokens[at + 1 :])
                if only_first:
                    return


def _name_before(tokens: list[Token], at: int) -> Token:
    """Return the name in `name = …` or `name *package.Type = …`."""
    place = at - 1
    while place > 1 and tokens[place - 1].text in (".", "*"):
        place -= 2 if tokens[place - 1].text == "." else 1
        if tokens[place].text == "*":
            return tokens[place - 1]
    return tokens[place]


def scan(source: str) -> list[Token]:
    """Return the tokens of Go source, without comments."""
    found: list[Token] = []
    for match in _TOKEN.finditer(source):
        kind = str(match.lastgroup)
        if kind != "space":
            found.append(Token(kind, match.group()))
    return found


def closing(tokens: list[Token], at: int) -> int:
    """Return the place of the bracket that closes the one at a place."""
    depth = 0
    for place in range(at, len(tokens)):
        if tokens[place].kind == "mark":
            depth += (tokens[place].text in _OPEN) - (tokens[place].text in _CLOSE)
        if depth == 0:
            return place
    raise GoError(f"no end of {tokens[at].text}")


def _next_at_top(tokens: list[Token], at: int, mark: str) -> int:
    """Return the next mark outside brackets; the `{` of a type such as `interface{}` is passed."""
    place = at
    while tokens[place].text != mark or tokens[place - 1].text in ("interface", "struct"):
        place = (closing(tokens, place) if tokens[place].text in _OPEN else place) + 1
    return place


def returned(body: list[Token]) -> Any:
    """Return the expression of a function's last `return` outside blocks."""
    place, last = 0, -1
    while place < len(body):
        if body[place].kind == "word" and body[place].text == "return":
            last = place
        place = (closing(body, place) if body[place].text in _OPEN else place) + 1
    if last < 0:
        raise GoError("no return")
    return expression(body[last + 1 :])


def expression(tokens: list[Token]) -> Any:
    """Return the expression at the start of tokens."""
    return _Reader(tokens).expression()


@dataclass
class _Reader:
    tokens: list[Token]
    at: int = 0

    def _peek(self) -> Token:
        return self.tokens[self.at] if self.at < len(self.tokens) else Token("end", "")

    def _is(self, text: str) -> bool:
        token = self._peek()
        return token.kind in ("mark", "word") and token.text == text

    def _take(self, text: str = "") -> Token:
        token = self._peek()
        if text and not self._is(text):
            raise GoError(f"must be {text}, got {token.text}")
        self.at += 1
        return token

    def expression(self) -> Any:
        """Return the expression at the reader's place, and go behind it."""
        start = self.at
        parts = [self._operand()]
        while self._peek().kind == "mark" and self._peek().text in _OPERATORS:
            self._take()
            parts.append(self._operand())
        if len(parts) == 1:
            return parts[0]
        return Code(_text(self.tokens[start : self.at]), tuple(parts))

    def _operand(self) -> Any:
        token = self._peek()
        if token.kind in ("raw", "text", "number", "rune"):
            return _literal(self._take())
        if token.kind == "mark" and token.text in _PREFIXES:
            return self._prefixed(self._take().text)
        if self._is("func"):
            return self._function()
        if token.text in ("map", "[", "{"):
            return self._composite("" if self._is("{") else self._type())
        if self._is("("):
            self._take()
            inner = self.expression()
            self._take(")")
            return self._after("", inner)
        return self._named()

    def _prefixed(self, mark: str) -> Any:
        inner = self._operand()
        if mark == "-" and isinstance(inner, int | float):
            return -inner
        return inner if mark in "&*" else Code(mark, (inner,))

    def _named(self) -> Any:
        name = self._take()
        if name.kind != "word":
            raise GoError(f"unexpected {name.text}")
        text = name.text
        while self._is(".") and self.tokens[self.at + 1].kind == "word":
            self._take()
            text += "." + self._take().text
        if text in ("true", "false", "nil"):
            return {"true": True, "false": False, "nil": None}[text]
        if self._is("{") and (text[0].isupper() or "." in text):
            return self._composite(text)
        return self._after(text, Name(text))

    def _after(self, name: str, value: Any) -> Any:
        while self._is("(") or self._is("[") or self._is("."):
            start = self.at
            if self._is("("):
                value, name = Call(name, self._arguments()), ""
            elif self._is("["):
                self.at = closing(self.tokens, self.at) + 1
                value = Code(_text(self.tokens[start : self.at]), (value,))
                name = ""
            else:
                self._take()
                self._take()
                value = Code(_text(self.tokens[start : self.at]), (value,))
        return value

    def _arguments(self) -> tuple[Any, ...]:
        self._take("(")
        found: list[Any] = []
        while not self._is(")"):
            found.append(self.expression())
            if self._is("..."):
                self._take()
            if self._is(","):
                self._take()
        self._take(")")
        return tuple(found)

    def _type(self) -> str:
        start = self.at
        while not self._is("{") or self.tokens[self.at - 1].text == "interface":
            if self.at >= len(self.tokens):
                raise GoError("a type without an end")
            at_bracket = self._peek().text in _OPEN
            self.at = (closing(self.tokens, self.at) if at_bracket else self.at) + 1
        return _text(self.tokens[start : self.at])

    def _composite(self, kind: str) -> Composite:
        self._take("{")
        items: list[tuple[Any, Any]] = []
        while not self._is("}"):
            value = self.expression()
            key = None
            if self._is(":"):
                self._take()
                key, value = value, self.expression()
            items.append((key, value))
            if self._is(","):
                self._take()
        self._take("}")
        return Composite(kind, tuple(items))

    def _function(self) -> Code:
        start = self.at
        body = _next_at_top(self.tokens, self.at, "{")
        self.at = closing(self.tokens, body) + 1
        return Code(_text(self.tokens[start : self.at]))


def _literal(token: Token) -> Any:
    if token.kind == "raw":
        return token.text[1:-1]
    if token.kind == "number":
        return float(token.text) if "." in token.text else int(token.text, 0)
    return ast.literal_eval(token.text)


def _text(tokens: Iterable[Token]) -> str:
    return "".join(token.text for token in tokens)
