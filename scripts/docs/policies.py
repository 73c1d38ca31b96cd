"""The list of policies, from the pack itself."""

import json

from policies.framework.registry import Listed
from policies.framework.rule import Policy, StackRule
from policies.rules import policies
from twin.host.paths import REPOSITORY

_OPENING = """\
# Policies

The rules of the policy pack in [policies](../policies). `make preview` loads the pack; to load it
manually, run `pulumi preview --policy-pack policies`. A violation of a *mandatory* rule fails the
preview, a violation of an *advisory* rule is a note, and a *remediating* rule fixes the value
before it is used, wherever the pack is loaded (also in `pulumi up`, if you pass the pack). A value
that is unknown in a preview results in an advisory note, never in a silent pass. After an update,
the same rules check the created resources. [CIS GKE Benchmark](cis-gke-benchmark.md) lists every
recommendation of the benchmark with the policies that implement it.

Policies check the resources that a stack will have. The engine does not show them deletions and
replacements; [the guard](guard.md) checks those.

A *resource* rule checks one resource; a *stack* rule checks resources that belong together. Pass
settings in a file with `--policy-pack-config`:

```json
{"deletion-protection": {"productionEnvironments": ["prod", "live"]}, "pinned-image": "advisory"}
```
"""


def _settings(rule: Policy) -> str:
    parts = [
        f"`{name}`, default `{json.dumps(spec.get('default'))}`"
        for name, spec in rule.config.items()
    ]
    return "; ".join(parts)


def _reference(rule: Policy) -> str:
    benchmark = f"CIS GKE Benchmark {', '.join(rule.cis)}" if rule.cis else ""
    return "; ".join(filter(None, [benchmark, rule.reference]))


def policies_page() -> str:
    """Return the page: the rules by subject, each with its requirement and source file."""
    rules = policies()
    lines = [_OPENING]
    for subject in sorted({listed.subject for listed in rules.values()}):
        lines += [
            f"## {subject.capitalize()}",
            "",
            "| rule | scope | level | requirement | reference | settings | code |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [_row(listed) for listed in rules.values() if listed.subject == subject]
        lines.append("")
    return "\n".join(lines)


def _row(listed: Listed[Policy]) -> str:
    rule, file = listed.rule, listed.file.relative_to(REPOSITORY)
    scope = "stack" if isinstance(rule, StackRule) else "resource"
    cells = [f"`{rule.name}`", scope, rule.level, rule.description, _reference(rule)]
    cells.append(_settings(rule))
    text = [" ".join(cell.split()).replace("|", "\\|") for cell in cells]
    return "| " + " | ".join([*text, f"[{file.name}](../{file})"]) + " |"
