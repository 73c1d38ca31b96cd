"""No program comes along with the weights."""

from collections.abc import Iterator

from policies.reading import is_workload, pods, words
from policies.rule import Config, Resource, Rule

_FLAG = "--trust-remote-code"


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    for pod in pods(resource):
        for path, container in pod.containers():
            if any(_FLAG in word.replace("_", "-") for word in words(container)):
                yield f"{path}.args: must not have {_FLAG}, which runs code from the bucket"


RULE = Rule(
    name="trusted-models",
    description="Engines do not run code that comes with a model.",
    applies=is_workload,
    check=_check,
    reference="vLLM: --trust-remote-code; safetensors hold no code",
)
