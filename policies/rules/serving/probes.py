"""Servers with accelerators get traffic only when ready, and have time to load their model."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import chips, is_kubernetes, pods, section
from policies.framework.resources import Resource
from policies.framework.rule import Config, OnObjects, ResourceRule

_PROBES = ("readinessProbe", "startupProbe")


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for pod in pods(resource):
        for path, container in pod.containers():
            if not chips(container) or ".initContainers" in path:
                continue
            for probe in _PROBES:
                if not section(container, probe):
                    yield broken(
                        resource,
                        f"{path}.{probe}",
                        "none",
                        "must be set on a server with accelerators",
                    )


RULE = ResourceRule(
    name="server-probes",
    description="Servers with accelerators have a readiness probe and a startup probe.",
    applies=is_kubernetes("Deployment", "LeaderWorkerSet", "RayCluster", "StatefulSet"),
    check=_check,
    reference="GKE: best practices for inference",
    on_objects=OnObjects(
        subject="lifecycle",
        fix="add startupProbe and readinessProbe on the health path",
    ),
)
