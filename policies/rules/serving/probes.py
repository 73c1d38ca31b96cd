"""A server with chips gets traffic when it is ready, and time to load its model."""

from collections.abc import Iterator

from policies.reading import chips, is_kubernetes, pods, section
from policies.rule import Config, Resource, Rule

_PROBES = ("readinessProbe", "startupProbe")


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    for pod in pods(resource):
        for path, container in pod.containers():
            if not chips(container) or ".initContainers" in path:
                continue
            for probe in _PROBES:
                if not section(container, probe):
                    yield f"{path}.{probe}: must be set on a server with accelerators, got none"


RULE = Rule(
    name="server-probes",
    description="A server with accelerators has a readiness probe and a start-up probe.",
    applies=is_kubernetes("Deployment", "LeaderWorkerSet", "StatefulSet"),
    check=_check,
    reference="GKE: best practices for inference",
)
