"""No process gains rights that its container did not have."""

from collections.abc import Iterator

from policies.reading import at, is_workload, pods
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    for pod in pods(resource):
        for path, container in pod.containers():
            value = at(container, "securityContext", "allowPrivilegeEscalation")
            if value is not False and at(container, "securityContext", "privileged") is not True:
                field = f"{path}.securityContext.allowPrivilegeEscalation"
                yield f"{field}: must be false, got {value!r}"


RULE = Rule(
    name="escalation",
    description="Containers cannot gain rights while they run.",
    applies=is_workload,
    check=_check,
    reference="Pod Security Standards, restricted; CIS GKE Benchmark 4.2.1",
)
