"""The page of checkov's findings: each that stays, with its reason."""

from policies.benchmark.findings import Explained, explained, stack, version

_OPENING = """\
# Findings of checkov

[checkov](https://www.checkov.io) {version} checks the rendered objects of the stack `{stack}` with
its rules for Kubernetes. What it reports and is not changed is on this page, with the reason. A
test of `make soak` fails on a finding that has no reason here, and on a reason that has no finding.
The data is in [checkov.yaml](../policies/benchmark/checkov.yaml).

checkov looks at one object at a time, so it cannot see what a namespace, a policy or GKE does.
[Invariants](invariants.md) and [policies](policies.md) have the rules of this project.

To run it yourself:

```sh
.venv/bin/gke-inference tools --with checkov # prints the folder of checkov
.venv/bin/gke-inference render --stack {stack}
FOLDER/bin/checkov -d build/{stack}/manifests --framework kubernetes --skip-download
```

| check | asks for | objects | reason |
|---|---|---|---|
"""


def checkov_page() -> str:
    """Return the page: the findings by check."""
    opening = _OPENING.format(version=version(), stack=stack())
    return opening + "".join(_row(each) for each in explained())


def _row(one: Explained) -> str:
    objects = ", ".join(f"`{each}`" for each in one.objects)
    return f"| {one.check} | {one.title} | {objects} | {one.reason} |\n"
