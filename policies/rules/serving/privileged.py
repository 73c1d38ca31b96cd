"""No container is privileged without a reason."""

from collections.abc import Iterator

from policies.reading import at, is_workload, pods
from policies.rule import Config, Resource, Rule

REASON = "gke-inference/privileged-because"


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    for pod in pods(resource):
        for path, container in pod.containers():
            if at(container, "securityContext", "privileged") is not True:
                continue
            if not pod.annotations.get(REASON):
                yield (
                    f"{path}.securityContext.privileged: must not be true, got true without the "
                    f"annotation {REASON} on the pod"
                )


RULE = Rule(
    name="privileged",
    description="No container is privileged, unless the pod is annotated with the reason.",
    applies=is_workload,
    check=_check,
    reference="CIS GKE Benchmark 4.2.1 (Pod Security Standards)",
)
