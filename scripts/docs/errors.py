"""The index of error messages, from the calls that create them."""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, product
from math import prod
from pathlib import Path
from typing import Final

from twin.host.paths import REPOSITORY

_ANY: Final = "…"
_OPENING: Final = """\
# Error messages

This page lists the error messages for stack files and of commands, so that you can search for
one. `…` stands for names and values. Each list is under the file that defines its messages. A
message about a stack begins with the path of the key, which the [reference](stack.md) describes.
Unless a message says otherwise, nothing was changed. Commands exit with a [code](exit-codes.md).
For the errors that clients of the endpoint get, see [API errors](../api-errors.md). For common
messages with their causes and fixes, see [Troubleshooting](../troubleshooting.md).

Messages from other programs, such as Pulumi, are not listed.
"""
_KINDS: Final = {
    "Stack files and arguments": ("InputError", "UnknownName"),
    "Commands": ("CommandError",),
}
_FOLDERS: Final = ("components/gke_inference", "infra", "scripts")
_SHORTEST: Final = 3
"""Number of words that make a message worth finding."""
_MOST: Final = 6
"""Number of variants of one message."""
_Names = dict[str, list[ast.expr]]


@dataclass(frozen=True)
class Message:
    """A message, and the file that creates it."""

    text: str
    file: Path


def errors_page(root: Path = REPOSITORY) -> str:
    """Return the page.

    Args:
        root: The repository.
    """
    parts = [_OPENING]
    for title, kinds in _KINDS.items():
        parts.append(f"## {title}\n")
        by_file: dict[Path, list[str]] = {}
        for message in chain.from_iterable(messages(root, kind) for kind in kinds):
            by_file.setdefault(message.file, []).append(message.text)
        for file, texts in sorted(by_file.items()):
            parts.append(f"[{file.as_posix()}](../../{file.as_posix()}):\n")
            parts += [f"- {_code(text)}" for text in sorted(set(texts))]
            parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def messages(root: Path, kind: str) -> Iterator[Message]:
    """Yield the messages of a class of errors whose text is written in the code.

    Args:
        root: The repository.
        kind: `InputError` or `CommandError`.
    """
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*.py")):
            if "vendor" in path.parts:
                continue
            source = path.read_text()
            if kind not in source:  # most files: to parse and search them takes seconds
                continue
            for text in _File(ast.parse(source)).texts(kind):
                if len(text.replace(_ANY, " ").split()) > _SHORTEST:
                    yield Message(text, path.relative_to(root))


def _code(text: str) -> str:
    """Return a text as code, which may itself contain code."""
    line = " ".join(text.split())
    return f"`` {line} ``" if "`" in line else f"`{line}`"


class _File:
    """The texts of one file, with the names that its functions and the module give to them."""

    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._module = _assigned(tree.body)

    def texts(self, kind: str) -> Iterator[str]:
        """Yield the messages of each call of a class."""
        functions = [node for node in ast.walk(self._tree) if isinstance(node, ast.FunctionDef)]
        seen: set[int] = set()
        # inner functions come after outer ones, and know more names
        for scope in (*reversed(functions), self._tree):
            names = self._module
            if isinstance(scope, ast.FunctionDef):
                names = names | _assigned(ast.walk(scope))
            for node, known in _calls(scope.body, names):
                if id(node) in seen:
                    continue
                if isinstance(node.func, ast.Name) and node.func.id == kind:
                    seen.add(id(node))
                    yield from _messages(node, known, kind)


def _calls(body: Iterable[ast.stmt], names: _Names) -> Iterator[tuple[ast.Call, _Names]]:
    """Yield the calls of statements, each with the values that names can have there.

    A name that a statement of the same block assigns has only that value from there on, so that
    two messages whose rules have one name are not mixed.
    """
    known = dict(names)
    for statement in body:
        blocks = _blocks(statement)
        inner = {id(each) for block in blocks for each in block}
        for node in _walk(statement, inner):
            if isinstance(node, ast.Call):
                yield node, known
        for block in blocks:
            yield from _calls(block, known)
        if blocks:
            nested = _assigned(
                node for block in blocks for each in block for node in ast.walk(each)
            )
            known |= {name: [*known.get(name, []), *found] for name, found in nested.items()}
        else:
            known |= _assigned([statement])


def _blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    """Return the blocks of a compound statement."""
    parts = [statement, *getattr(statement, "handlers", []), *getattr(statement, "cases", [])]
    fields = ("body", "orelse", "finalbody")
    found = [getattr(part, field, []) for part in parts for field in fields]
    return [block for block in found if block]


def _walk(node: ast.AST, left_out: set[int]) -> Iterator[ast.AST]:
    """Yield a node and what is below it, without some statements and what is below them."""
    yield node
    for child in ast.iter_child_nodes(node):
        if id(child) not in left_out:
            yield from _walk(child, left_out)


def _messages(call: ast.Call, names: _Names, kind: str) -> Iterator[str]:
    given = [_texts(each, names) for each in call.args]
    if kind == "CommandError":
        yield from given[0] if given else ()
        return
    paths, rules = (*given, [_ANY], [_ANY])[:2]
    has_value = len(call.args) > 2 and not _is_none(call.args[2])
    for rule in rules:
        if len(rule.replace(_ANY, " ").split()) >= _SHORTEST:
            yield f"{paths[0]}: {rule}{', got …' if has_value else ''}".removeprefix(": ")


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _assigned(nodes: Iterable[ast.AST]) -> _Names:
    """Return the values that statements give to names."""
    found: _Names = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            found.setdefault(node.target.id, []).append(node.value)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            if not isinstance(node.value, ast.Tuple):
                continue
            for target, value in zip(node.targets[0].elts, node.value.elts, strict=False):
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append(value)
    return found


def _texts(node: ast.expr, names: _Names, depth: int = 4) -> list[str]:
    """Return the texts that an expression can have, with `…` for what only a run knows."""
    match node:
        case ast.Constant(value=str() as text):
            return [text]
        case ast.JoinedStr(values=parts):
            return _joined("", [_texts(each, names, depth) for each in parts])
        case ast.FormattedValue(value=ast.Name() | ast.IfExp() as inner, format_spec=None):
            return _texts(inner, names, depth)
        case ast.IfExp(body=body, orelse=other):
            return _texts(body, names, depth) + _texts(other, names, depth)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _joined("", [_texts(left, names, depth), _texts(right, names, depth)])
        case ast.Name(id=name) if depth and name in names:
            return [text for each in names[name] for text in _texts(each, names, depth - 1)]
        case ast.Call(func=ast.Name(id="join"), args=parts):
            return _joined(".", [_texts(each, names, depth) for each in parts])
        case _:
            return [_ANY]


def _joined(separator: str, parts: list[list[str]]) -> list[str]:
    """Return every combination of parts; of too many, the first of each part."""
    if prod(map(len, parts)) > _MOST:
        parts = [each[:1] for each in parts]
    return [separator.join(each) for each in product(*parts)]
