"""Accelerator requests equal limits."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import chips, is_workload, pods, section
from policies.framework.resources import Resource
from policies.framework.rule import Config, OnObjects, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for pod in pods(resource):
        for path, container in pod.containers():
            limits = section(container, "resources", "limits")
            requests = section(container, "resources", "requests")
            for name in chips(container):
                limit, request = limits.get(name), requests.get(name)
                if limit is None:
                    yield broken(
                        resource,
                        f"{path}.resources.limits",
                        f"{request!r} in requests",
                        f"must have {name}",
                    )
                elif request is not None and str(request) != str(limit):
                    yield broken(
                        resource,
                        f"{path}.resources.requests",
                        quoted(request),
                        f"must be {limit!r} of {name}",
                    )


RULE = ResourceRule(
    name="whole-chips",
    description="Accelerator requests equal limits, as Kubernetes requires.",
    applies=is_workload,
    check=_check,
    reference="Kubernetes: extended resources",
    on_objects=OnObjects(
        subject="hardware",
        fix="set the same number in requests and limits",
        reference="Kubernetes: extended resources cannot be overcommitted",
    ),
)
