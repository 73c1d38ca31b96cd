"""Model weights carry no executable code."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import is_workload, pods, words
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_FLAG = "--trust-remote-code"


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for pod in pods(resource):
        for path, container in pod.containers():
            if any(_FLAG in word.replace("_", "-") for word in words(container)):
                yield broken(
                    resource,
                    f"{path}.args",
                    "",
                    f"must not have {_FLAG}, which runs code from the bucket",
                )


RULE = ResourceRule(
    name="trusted-models",
    description="Engines do not run code that ships with a model.",
    applies=is_workload,
    check=_check,
    reference="vLLM: --trust-remote-code; safetensors hold no code",
)
