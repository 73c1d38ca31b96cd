"""The autoscaler knows how large a node must be."""

from collections.abc import Iterator

from policies.reading import at, is_workload, pods
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    for pod in pods(resource):
        for path, container in pod.containers():
            for name in ("cpu", "memory"):
                asked = at(container, "resources", "requests", name) or at(
                    container, "resources", "limits", name
                )
                if asked is None:
                    yield f"{path}.resources.requests.{name}: must be set, got None"


RULE = Rule(
    name="sized-containers",
    description="Containers say what CPU and memory they need; nodes are chosen by it.",
    applies=is_workload,
    check=_check,
    reference="google/skills gke-compute-classes: node sizing uses requests",
)
