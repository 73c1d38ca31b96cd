"""Processes cannot gain more privileges than their container has."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import at, is_workload, pods
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for pod in pods(resource):
        for path, container in pod.containers():
            value = at(container, "securityContext", "allowPrivilegeEscalation")
            if value is not False and at(container, "securityContext", "privileged") is not True:
                field = f"{path}.securityContext.allowPrivilegeEscalation"
                yield broken(resource, field, quoted(value), "must be false")


RULE = ResourceRule(
    name="escalation",
    description="Containers do not allow privilege escalation.",
    applies=is_workload,
    check=_check,
    cis=("4.6.3",),
    reference="Pod Security Standards, restricted",
)
