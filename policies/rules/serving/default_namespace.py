"""Workloads run in a namespace with its own policies."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import at, is_workload
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    name = at(resource.props, "metadata", "namespace")
    if name in (None, "default"):
        yield broken(resource, "metadata.namespace", quoted(name), "must be one of the platform's")


RULE = ResourceRule(
    name="default-namespace",
    description="No workload runs in the `default` namespace.",
    applies=is_workload,
    check=_check,
    cis=("4.6.4",),
)
