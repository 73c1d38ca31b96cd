"""What people ask is in no log."""

from collections.abc import Iterator

from policies.reading import is_workload, pods, words
from policies.rule import Config, Resource, Rule

_LOGGED = frozenset(["--enable-log-outputs", "--enable-log-requests", "--log-requests"])
_SERVERS = ("vllm", "sglang")


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    for pod in pods(resource):
        for path, container in pod.containers():
            said = words(container)
            text = " ".join(said)
            if not any(name in text for name in _SERVERS):
                continue
            found = [word for word in said if word.split("=")[0] in _LOGGED]
            if found:
                yield f"{path}.args: must not log requests, got {found[0]!r}"


RULE = Rule(
    name="private-prompts",
    description="Engines write no prompts into their logs.",
    applies=is_workload,
    check=_check,
    reference="vLLM: --enable-log-requests; data protection",
)
