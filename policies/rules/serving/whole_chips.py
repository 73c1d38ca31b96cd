"""A server asks for the chips it uses, the same number as request and limit."""

from collections.abc import Iterator

from policies.reading import chips, is_workload, pods, section
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    for pod in pods(resource):
        for path, container in pod.containers():
            limits = section(container, "resources", "limits")
            requests = section(container, "resources", "requests")
            for name in chips(container):
                limit, request = limits.get(name), requests.get(name)
                if limit is None:
                    yield f"{path}.resources.limits: must have {name}, got {request!r} in requests"
                elif request is not None and str(request) != str(limit):
                    yield f"{path}.resources.requests: must be {limit!r} of {name}, got {request!r}"


RULE = Rule(
    name="whole-chips",
    description="Requests and limits of accelerators are equal, as the scheduler needs them.",
    applies=is_workload,
    check=_check,
    reference="Kubernetes: extended resources",
)
