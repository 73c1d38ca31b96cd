"""The list of invariants, from the rules themselves."""

from policies.checker.rules import invariants
from policies.rules import policies

_OPENING = """\
# Invariants

What must agree across the objects of a platform, whoever rendered them: this program, another
blueprint, or a person. You need no cluster and no account.

```sh
make render STACK=prod && gke-inference check build/prod   # every object of a stack, by cluster
gke-inference check rendered.yaml other/                   # any files and folders of plain YAML
gke-inference check build/prod --rule metrics-exist --json # one rule, for another program
```

A table shows object, rule, field, value, reason and fix; the exit code is 1 if something is broken.
A rule that cannot decide reports what is missing: that is *not decided*, never a silent pass.
`--unknown` lists those objects, `--strict` also fails on them.

Lists and files of several documents are read. Templates of Helm and folders with a kustomization
are refused: render them first (`helm template`, `kubectl kustomize`). Flags are understood in every
form that is in use (`--x=y`, `--x y`, `--x_y`, in a shell's script, from variables and ConfigMaps).
Engines known by their images and commands: vLLM, SGLang, JetStream and MaxText, TGI, Triton.

What the rules know by heart is [data](../components/gke_inference/catalogue/data):
accelerators, metrics by release (`engine_metrics.yaml`), API versions. Sizes and contexts of
models are read from their names. Rules that are marked *pack* are also
[policies](policies.md) of a preview.
"""


def invariants_page() -> str:
    """Return the page: the rules by subject, each with where it comes from."""
    rules = invariants()
    lines = [_OPENING]
    for subject in sorted({listed.subject for listed in rules.values()}):
        lines += [f"## {subject.capitalize()}", ""]
        lines += ["| rule | what must hold | where it comes from |", "|---|---|---|"]
        for name, listed in rules.items():
            if listed.subject == subject:
                pack = " (pack)" if name in policies() else ""
                cells = [f"`{name}`{pack}", listed.rule.description, listed.rule.reference]
                lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
        lines.append("")
    return "\n".join(lines)
