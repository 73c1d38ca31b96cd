"""Syntax of chat templates, as the engines compile them with Transformers."""

import json
from datetime import datetime
from functools import cache
from typing import Any, ClassVar, NoReturn, cast

from jinja2 import Template, TemplateError, TemplateSyntaxError, meta, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from gke_inference.catalogue.input_error import Bare, InputError

MOST_BYTES = 524_288
"""Half of what a ConfigMap holds (kubernetes.io/docs/concepts/configuration/configmap): the
launcher's files are in the same one."""
_LONGEST_SHOWN = 60


class _Generation(Extension):
    """`{% generation %}`, which marks the answer for training and prints its content as it is."""

    tags: ClassVar[set[str]] = {"generation"}  # pyrefly: ignore[bad-override] - Jinja's is an instance variable

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return the nodes between the tags."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    """Return the environment of Transformers (`utils/chat_template_utils.py`)."""
    made = ImmutableSandboxedEnvironment(
        extensions=[_Generation, "jinja2.ext.loopcontrols"], lstrip_blocks=True, trim_blocks=True
    )
    names = cast("dict[str, Any]", made.globals)  # which Jinja types as the names it has itself
    names.update(raise_exception=_refuse, strftime_now=_now)
    made.filters["tojson"] = _to_json
    return made


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return JSON as it is; Jinja's own filter escapes it for HTML pages."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _now(form: str) -> str:
    return datetime.now().strftime(form)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


@cache
def compiled(text: str) -> Template:
    """Return a template that can be rendered, if `template_problem` finds no problem."""
    return _environment().from_string(text)


def template_problem(text: str) -> InputError | None:
    """Return why a text is no chat template, without a path, or None if it is one.

    vLLM takes a text without braces and line breaks for a path
    (0.32.0 `renderers/chat_utils/chat_template.py`).
    """
    if not any(character in text for character in "{}\n"):
        return InputError("", "must be the text of a template, not a path", text)
    try:
        size = len(text.encode())
        if size > MOST_BYTES:
            return InputError("", f"must have at most {MOST_BYTES} bytes", size)
        found = _environment().parse(text)
        _environment().compile(text)  # also looks for filters and tests
    except TemplateSyntaxError as error:
        lines = text.splitlines()
        line = lines[error.lineno - 1].strip() if 0 < error.lineno <= len(lines) else ""
        rule = f"must be a Jinja template: line {error.lineno}: {error.message}"
        return InputError("", rule, _cut(line))
    except (RecursionError, SyntaxError, ValueError) as error:
        # Jinja makes Python of a template, whose compiler has limits of its own
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        return InputError("", f"must be a Jinja template: {reason}", _cut(text.strip()))
    return _use_problem(found, text)


def _use_problem(found: nodes.Template, text: str) -> InputError | None:
    """Return what a template needs and does not get, or gets and does not use."""
    for other in meta.find_referenced_templates(found):
        rule = "must not include, import or extend other templates: an engine has only this one"
        return InputError("", rule, _cut(other or text.strip()))
    if "messages" not in meta.find_undeclared_variables(found):
        return InputError("", "must use 'messages', the conversation", _cut(text.strip()))
    return None


def _cut(text: str) -> str | Bare:
    line = text.splitlines()[0] if text else ""
    return line if len(line) <= _LONGEST_SHOWN else line[: _LONGEST_SHOWN - 3] + "..."
