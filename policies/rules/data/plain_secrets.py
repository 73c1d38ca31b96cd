"""Tokens and keys do not stand in manifests."""

import re
from collections.abc import Iterator

from policies.reading import environment, is_workload, pods
from policies.rule import Config, Resource, Rule

_SECRET = re.compile(r"(^|_)(TOKEN|PASSWORD|PASSWD|SECRET|API_?KEY|CREDENTIALS)$")


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    for pod in pods(resource):
        for path, container in pod.containers():
            for name, value in environment(container).items():
                if _SECRET.search(name.upper()) and isinstance(value, str) and value:
                    yield f"{path}.env: {name} must come from a Secret, got a value in the manifest"


RULE = Rule(
    name="plain-secrets",
    description="Variables that hold tokens, passwords or keys are read from a Secret.",
    applies=is_workload,
    check=_check,
    reference="CIS GKE Benchmark 4.4.1 (secrets); Secret Manager add-on",
)
