"""Tokens of service accounts: a pod mounts one only if its program needs it."""

from collections.abc import Iterator
from typing import Any

import pytest

from infra.reading.load import STACKS, read
from tests.contract.infra.cloud import Deployed
from tests.shipped_stacks import EXAMPLES
from twin.providers.kubernetes.manifests.objects import to_object

NEEDS_IT = {
    "batch-service": "it creates the jobs of own engines",
    "endpoint-picker": "it watches pools, objectives and pods",
    "metrics-adapter": "it answers the API server, which it asks who calls",
    "personal-worker": "it creates jobs",
    "pool-fallback": "it keeps its budget in a ConfigMap and reads the pool's engines",
    "queue-operator": "it is a controller",
    "ray-scaler": "it sets the replicas of Ray clusters",
    "weights-gate": "it raises the replicas of model servers",
}
STACKS_WITH_PROGRAMS = [
    ("prod", STACKS),
    *(
        (name, EXAMPLES / name)
        for name in ("backends", "batch", "batch-engines", "clients", "personalized-images")
    ),
    *((name, EXAMPLES / name) for name in ("queues", "ray", "streaming")),
    ("guarded", EXAMPLES / "guardrails"),
]


def templates(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the pod templates of an object, at any depth."""
    if isinstance(value, dict):
        if isinstance(value.get("spec"), dict) and "containers" in value["spec"]:
            yield value
        for each in value.values():
            yield from templates(each)
    elif isinstance(value, list):
        for each in value:
            yield from templates(each)


def mounting(objects: list[dict[str, Any]]) -> set[str]:
    """Return the components whose pods mount a token, by their own word or their account's."""
    accounts = {
        (each["metadata"].get("namespace"), each["metadata"]["name"]): each.get(
            "automountServiceAccountToken", True
        )
        for each in objects
        if each["kind"] == "ServiceAccount"
    }
    found: set[str] = set()
    for each in objects:
        for template in templates(each):
            spec, namespace = template["spec"], each["metadata"].get("namespace")
            account = (namespace, spec.get("serviceAccountName", "default"))
            if spec.get("automountServiceAccountToken", accounts.get(account, True)):
                labels = template.get("metadata", {}).get("labels", {})
                found.add(labels.get("app.kubernetes.io/component") or each["metadata"]["name"])
    return found


@pytest.mark.parametrize(
    ("name", "folder"), STACKS_WITH_PROGRAMS, ids=lambda value: str(value)[-20:]
)
def test_only_programs_with_a_reason_mount_the_token_of_their_account(
    name: str, folder: Any, deployed: Deployed
) -> None:
    seen = deployed(read(name, folder)).registrations
    objects = [to_object(each.inputs) for each in seen if each.type.startswith("kubernetes:")]
    assert sum(1 for each in objects for _ in templates(each)) > 0
    assert mounting(objects) - NEEDS_IT.keys() == set()
