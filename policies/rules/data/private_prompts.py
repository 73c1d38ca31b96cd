"""No prompts in logs."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import is_workload, pods, words
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_LOGGED = frozenset(["--enable-log-outputs", "--enable-log-requests", "--log-requests"])
_SERVERS = ("vllm", "sglang")


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for pod in pods(resource):
        for path, container in pod.containers():
            said = words(container)
            text = " ".join(said)
            if not any(name in text for name in _SERVERS):
                continue
            found = [word for word in said if word.split("=")[0] in _LOGGED]
            if found:
                yield broken(resource, f"{path}.args", quoted(found[0]), "must not log requests")


RULE = ResourceRule(
    name="private-prompts",
    description="Engines do not log prompts.",
    applies=is_workload,
    check=_check,
    reference="vLLM: --enable-log-requests; data protection",
)
