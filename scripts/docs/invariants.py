"""The list of invariants, from the rules themselves."""

from policies.checker.rules import invariants
from policies.rules import policies

_OPENING = """\
# Invariants

Rules that the objects of a platform must satisfy together, whether this program, another blueprint
or a person wrote them. You need neither a cluster nor an account.

```sh
make render STACK=prod && gke-inference check build/prod   # every object of a stack, by cluster
gke-inference check rendered.yaml other/                   # any files and folders of plain YAML
gke-inference check build/prod --rule metrics-exist -o json # one rule, for another program
```

A table shows object, rule, field, value, reason and fix; the exit code is 1 if a rule is broken.
A rule without enough information reports what is missing: it is *not decided*, never a silent pass.
`--unknown` lists the objects of such rules, `--strict` also fails on them.

The command reads lists and multi-document files. It rejects Helm templates and folders with a
kustomization: render them first (`helm template`, `kubectl kustomize`). It understands flags in all
common forms (`--x=y`, `--x y`, `--x_y`, in shell scripts, from variables and ConfigMaps). It
recognizes these engines by image and command: vLLM, SGLang, JetStream and MaxText, TGI, Triton.

Facts for the rules are in [data files](../components/gke_inference/catalogue/data):
accelerators, metrics by release (`exported_metrics.yaml`), API versions. Sizes and contexts of
models are derived from their names. Rules marked *pack* are also
[policies](policies.md) of a preview.
"""


def invariants_page() -> str:
    """Return the page: the rules by subject, each with its source."""
    rules = invariants()
    lines = [_OPENING]
    for subject in sorted({listed.subject for listed in rules.values()}):
        lines += [f"## {subject.capitalize()}", ""]
        lines += ["| rule | requirement | source |", "|---|---|---|"]
        for name, listed in rules.items():
            if listed.subject == subject:
                pack = " (pack)" if name in policies() else ""
                cells = [f"`{name}`{pack}", listed.rule.description, listed.rule.reference]
                lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
        lines.append("")
    return "\n".join(lines)
