"""A pod without an available rung waits instead of running on a machine without its chips."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import at, is_kubernetes
from policies.framework.resources import Resource
from policies.framework.rule import Config, OnObjects, ResourceRule

_WANTED = "DoNotScaleUp"


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    value = at(resource.props, "spec", "whenUnsatisfiable")
    if value != _WANTED:
        yield broken(resource, "spec.whenUnsatisfiable", quoted(value), f"must be {_WANTED!r}")


RULE = ResourceRule(
    name="waiting-class",
    description="Pods wait if no rung of their compute class is available (DoNotScaleUp).",
    applies=is_kubernetes("ComputeClass"),
    check=_check,
    reference="ComputeClass reference: whenUnsatisfiable",
    on_objects=OnObjects(
        subject="classes",
        fix="set whenUnsatisfiable: DoNotScaleUp",
        reference="ComputeClass reference; gke-labs/kube-agents #1774",
    ),
)
