"""The autoscaler can determine the required node size."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import at, is_workload, pods
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for pod in pods(resource):
        for path, container in pod.containers():
            for name in ("cpu", "memory"):
                asked = at(container, "resources", "requests", name) or at(
                    container, "resources", "limits", name
                )
                if asked is None:
                    yield broken(
                        resource, f"{path}.resources.requests.{name}", quoted(None), "must be set"
                    )


RULE = ResourceRule(
    name="sized-containers",
    description="Containers request CPU and memory, which determine the node size.",
    applies=is_workload,
    check=_check,
    reference="google/skills gke-compute-classes: node sizing uses requests",
)
