"""Pods may make the system calls of a container, no more."""

from collections.abc import Iterator

from policies.reading import at, is_workload, pods
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    for pod in pods(resource):
        whole = at(pod.spec, "securityContext", "seccompProfile", "type")
        for path, container in pod.containers():
            own = at(container, "securityContext", "seccompProfile", "type") or whole
            if own not in ("RuntimeDefault", "Localhost") and (
                at(container, "securityContext", "privileged") is not True
            ):
                field = f"{path}.securityContext.seccompProfile.type"
                yield f"{field}: must be RuntimeDefault, got {own!r}"


RULE = Rule(
    name="seccomp",
    description="Containers run with the default filter of system calls.",
    applies=is_workload,
    check=_check,
    reference="CIS GKE Benchmark 4.6.2 (seccomp)",
)
