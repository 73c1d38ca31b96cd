"""The public names of this project, as its code has them."""

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final

import typer
from pulumi.provider.experimental.component import ComponentProvider

from gke_inference.catalogue.labels import TEAM_LABEL, labels_of
from gke_inference.observability.alert_source import sources
from gke_inference.plugin import COMPONENTS, NAME, VERSION
from infra.reading.platform_reference import OUTPUT
from infra.reading.schema import stack_schema
from infra.stack.renames import RENAMES, Rename
from infra.stack.renames import Kind as RenameKind
from scripts.app import build_app
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.variables import OF_CI, VARIABLES
from twin.host.paths import REPOSITORY


class Kind(StrEnum):
    """What a name is of; the word that its lines in the record begin with."""

    STACK = "stack"
    COMPONENT = "component"
    COMMAND = "command"
    OUTPUT = "output"
    EXIT_CODE = "exit-code"
    VARIABLE = "variable"
    ALERT = "alert"
    METRIC = "metric"
    LABEL = "label"


@cache
def public_names() -> dict[Kind, list[str]]:
    """Return the public names by kind, sorted."""
    return {kind: sorted(set(names())) for kind, names in _SOURCES.items()}


def stack_names() -> Iterator[str]:
    """Yield keys of a stack file, and values as `KEY=VALUE`, with `*` for names and entries."""
    schema = stack_schema()
    roots = [schema["$defs"][root] for root in ("Platform", "Serving")]
    current = {name for root in roots for name in _paths(root, (), schema["$defs"])}
    yield from current
    yield from accepted_names(current, RENAMES)


def accepted_names(current: Iterable[str], renames: Iterable[Rename]) -> Iterator[str]:
    """Yield the old words that this version accepts, with the names below them.

    Args:
        current: Names of a stack with the new words.
        renames: Table of renamed words.
    """
    for each in renames:
        if not each.is_accepted:
            continue
        yield each.name
        for name in current if each.kind is RenameKind.KEY else ():
            if re.match(rf"{re.escape(each.new_name)}[.=]", name):
                yield each.name + name[len(each.new_name) :]


def _paths(spec: Any, at: tuple[str, ...], known: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(spec, dict):
        return
    part: dict[str, Any] = spec
    if "$ref" in part:
        yield from _paths(known[str(part["$ref"]).rsplit("/", 1)[1]], at, known)
    for branch in part.get("anyOf", ()):
        yield from _paths(branch, at, known)
    values = [*part.get("enum", ()), *([part["const"]] if "const" in part else [])]
    yield from (f"{'.'.join(at)}={json.dumps(each).strip(chr(34))}" for each in values)
    for key, value in part.get("properties", {}).items():
        if value is not False:  # a key that a layer must not have
            yield ".".join((*at, key))
            yield from _paths(value, (*at, key), known)
    by_name = part.get("patternProperties", {}).values()
    for value in (*by_name, part.get("additionalProperties"), part.get("items")):
        yield from _paths(value, (*at, "*"), known)


def component_names() -> Iterator[str]:
    """Yield components with their inputs and outputs, and the types of inputs with their fields."""
    provider = ComponentProvider(list(COMPONENTS), NAME, None, VERSION)
    schema = json.loads(str(provider.schema))
    for token, resource in schema["resources"].items():
        yield token
        yield from (f"{token}.inputs.{each}" for each in resource.get("inputProperties", ()))
        yield from (f"{token}.outputs.{each}" for each in resource.get("properties", ()))
    for token, kind in schema["types"].items():
        yield token
        yield from (f"{token}.{each}" for each in kind.get("properties", ()))
        yield from (f"{token}={each['value']}" for each in kind.get("enum", ()))


def command_names() -> Iterator[str]:
    """Yield commands with their arguments and options, such as `models push --from-hub`."""
    yield from _commands("", typer.main.get_command(build_app()))


def _commands(name: str, command: Any) -> Iterator[str]:
    if name:
        yield name
    for parameter in command.params:
        is_argument = parameter.__class__.__name__.endswith("Argument")
        forms = [f"<{parameter.name}>"] if is_argument else parameter.opts
        yield from (f"{name} {form}".strip() for form in (*forms, *parameter.secondary_opts))
    for each, below in getattr(command, "commands", {}).items():
        yield from _commands(f"{name} {each}".strip(), below)


_EXPORTING: Final = {
    "infra/deploy/exports.py": ("exports", "_fronted"),
    "infra/deploy/team_program.py": ("serving_exports",),
    "infra/deploy/program.py": ("deploy",),
}
"""Functions that make the outputs of a stack, by file."""


def output_names() -> Iterator[str]:
    """Yield outputs of stacks, with `*` for the names of regions and models."""
    for file, functions in _EXPORTING.items():
        tree = ast.parse((REPOSITORY / file).read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name in functions:
                for each in ast.walk(node):
                    yield from _exported(each)


def _exported(node: ast.AST) -> Iterator[str]:
    """Yield what a statement adds to the outputs: a dictionary of them, or one by its name."""
    match node:
        case (
            ast.Assign(targets=[ast.Name("exported" | "outputs")], value=value)
            | ast.AnnAssign(target=ast.Name("exported" | "outputs"), value=value)
            | ast.Return(value=value)
        ):
            yield from _keys(value.body if isinstance(value, ast.IfExp) else value, "")
        case ast.Assign(
            targets=[ast.Subscript(value=ast.Name("exported" | "outputs"), slice=key)], value=value
        ):
            yield from _entry(key, value, "")
        case ast.Call(func=ast.Attribute(attr="export"), args=[ast.Constant() as key, *_]):
            yield from _entry(key, None, "")
        case _:
            return


def _keys(value: ast.expr | None, above: str) -> Iterator[str]:
    if isinstance(value, ast.DictComp):
        yield from _keys(value.value, f"{above}*.")
    elif isinstance(value, ast.Dict):
        for key, below in zip(value.keys, value.values, strict=True):
            yield from _entry(key, below, above)


def _entry(key: ast.expr | None, value: ast.expr | None, above: str) -> Iterator[str]:
    name = OUTPUT if isinstance(key, ast.Name) else getattr(key, "value", None)
    if isinstance(name, str):
        yield above + name
        yield from _keys(value, f"{above}{name}.")


_GO_METRIC: Final = re.compile(r'"((?:callout|relay|body_router)_[a-z0-9_]+)"')
_PYTHON_METRICS: Final = ("counter", "gauge", "histogram")


def metric_names() -> Iterator[str]:
    """Yield the metrics of this project's own programs, as Prometheus reads them."""
    workloads = REPOSITORY / "workloads"
    for file in sorted((workloads / "gateway").rglob("*.go")):
        if not file.name.endswith("_test.go"):
            yield from _GO_METRIC.findall(file.read_text(encoding="utf-8"))
    for file in sorted(workloads.rglob("metrics.py")):
        yield from _python_metrics(file)


def _python_metrics(file: Path) -> Iterator[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=kind), args=[name, *_]) if (
                kind in _PYTHON_METRICS
            ):
                text = constants.get(name.id) if isinstance(name, ast.Name) else None
                text = name.value if isinstance(name, ast.Constant) else text
                if isinstance(text, str):
                    yield f"{text}_total" if kind == "counter" else text
            case _:
                pass


def _variables() -> Iterator[str]:
    for each in (*VARIABLES, *OF_CI):
        yield from each.name.split(", ")


_SOURCES: Final[dict[Kind, Callable[[], Iterator[str]]]] = {
    Kind.STACK: stack_names,
    Kind.COMPONENT: component_names,
    Kind.COMMAND: command_names,
    Kind.OUTPUT: output_names,
    Kind.EXIT_CODE: lambda: (f"{code.value} {code.name}" for code in ExitCode),
    Kind.VARIABLE: _variables,
    Kind.ALERT: lambda: (str(each["name"]) for each in sources()),
    Kind.METRIC: metric_names,
    Kind.LABEL: lambda: iter([*labels_of("any", "any"), TEAM_LABEL]),
}
