"""Containers are limited to the default system calls."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import at, is_kubernetes, is_workload, kept_pods, pods
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_IS_CONFIG = is_kubernetes("ConfigMap")


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for pod in [*pods(resource), *kept_pods(resource)]:
        whole = at(pod.spec, "securityContext", "seccompProfile", "type")
        for path, container in pod.containers():
            own = at(container, "securityContext", "seccompProfile", "type") or whole
            if own not in ("RuntimeDefault", "Localhost") and (
                at(container, "securityContext", "privileged") is not True
            ):
                field = f"{path}.securityContext.seccompProfile.type"
                yield broken(resource, field, quoted(own), "must be RuntimeDefault")


RULE = ResourceRule(
    name="seccomp",
    description="Containers use the RuntimeDefault seccomp profile.",
    applies=lambda resource: is_workload(resource) or _IS_CONFIG(resource),
    check=_check,
    cis=("4.6.2",),
)
