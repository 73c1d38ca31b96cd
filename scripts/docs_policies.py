"""The list of policies, from the pack itself."""

import importlib
import inspect
import json
import pkgutil
from typing import Any

from policies import rules
from policies.rule import Rule, StackRule
from twin.host.paths import REPOSITORY

_OPENING = """\
# Policies

What the pack in [policies](../policies) refuses. It is loaded by `make preview` and, by hand, with
`pulumi preview --policy-pack policies`. A violation of a *mandatory* rule fails the preview, of an
*advisory* one it is a note, and a *remediating* one mends the value before it is used, wherever the
pack is loaded (`pulumi up`, too, when it is given the pack). A value that a preview does not know
yet is an advisory note, never a pass in silence. After the cloud has answered, the same rules look
at what was made. Sections of the CIS GKE Benchmark are those of v1.9.0; the numbers of
its level 1 were checked against a published list of its items, those of level 2 against none.

Rules see what a stack will have, never what it will no longer have: the engine does not show a
policy what is deleted or replaced. That is [the guard's part](guard.md).

A rule of a *resource* looks at one resource; a rule of the *stack* at resources that belong
together. Settings are given in a file to `--policy-pack-config`:

```json
{"deletion-protection": {"productionEnvironments": ["prod", "live"]}, "pinned-image": "advisory"}
```
"""


def _found() -> list[tuple[str, str, Rule | StackRule]]:
    """Return (subject, file, rule) of every rule in the pack."""
    listed = {id(rule) for rule in (*rules.RULES, *rules.STACK_RULES)}
    found: list[tuple[str, str, Rule | StackRule]] = []
    for info in pkgutil.walk_packages(rules.__path__, f"{rules.__name__}."):
        module: Any = importlib.import_module(info.name)
        for name in ("RULE", "STACK_RULE"):
            rule: Rule | StackRule | None = getattr(module, name, None)
            if rule is not None and id(rule) in listed:
                subject = info.name.split(".")[-2]
                file = inspect.getfile(module).removeprefix(f"{REPOSITORY}/")
                found.append((subject, file, rule))
    return found


def _settings(rule: Rule | StackRule) -> str:
    parts = [
        f"`{name}`, default `{json.dumps(spec.get('default'))}`"
        for name, spec in rule.config.items()
    ]
    return "; ".join(parts)


def policies_page() -> str:
    """Return the page: the rules by subject, each with what it is for and where it stands."""
    found = _found()
    lines = [_OPENING]
    for subject in sorted({subject for subject, *_ in found}):
        lines += [
            f"## {subject.capitalize()}",
            "",
            "| rule | looks at | level | refuses whatever breaks this | see | settings | code |",
            "|---|---|---|---|---|---|---|",
        ]
        mine = [entry for entry in found if entry[0] == subject]
        for _, file, rule in sorted(mine, key=lambda entry: entry[2].name):
            scope = "stack" if isinstance(rule, StackRule) else "resource"
            cells = [f"`{rule.name}`", scope, rule.level, rule.description, rule.reference]
            cells.append(_settings(rule))
            text = [" ".join(cell.split()).replace("|", "\\|") for cell in cells]
            source = f"[{file.rsplit('/', 1)[1]}](../{file})"
            lines.append("| " + " | ".join([*text, source]) + " |")
        lines.append("")
    return "\n".join(lines)
