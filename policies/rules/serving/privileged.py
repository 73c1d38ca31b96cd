"""No container is privileged without a reason."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import at, is_workload, pods
from policies.framework.resources import Resource
from policies.framework.rule import Config, OnObjects, ResourceRule

REASON = "gke-inference/privileged-because"


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for pod in pods(resource):
        for path, container in pod.containers():
            if at(container, "securityContext", "privileged") is not True:
                continue
            if not pod.annotations.get(REASON):
                yield broken(
                    resource,
                    f"{path}.securityContext.privileged",
                    f"true without the annotation {REASON} on the pod",
                    "must not be true",
                )


RULE = ResourceRule(
    name="privileged",
    description="No container is privileged, unless an annotation on the pod states the reason.",
    applies=is_workload,
    check=_check,
    cis=("4.2.1",),
    reference="Pod Security Standards, baseline",
    on_objects=OnObjects(
        subject="hardware",
        fix="request the accelerator as a resource instead",
    ),
)
