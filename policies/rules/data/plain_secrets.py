"""Manifests contain no tokens or keys."""

from collections.abc import Iterator

from gke_inference.catalogue.engine_flags import is_secret
from policies.framework.finding import Finding, broken
from policies.framework.reading import environment, is_workload, pods
from policies.framework.resources import Resource
from policies.framework.rule import Config, OnObjects, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for pod in pods(resource):
        for path, container in pod.containers():
            for name, value in environment(container).items():
                if is_secret(name) and isinstance(value, str) and value:
                    yield broken(
                        resource,
                        f"{path}.env",
                        "a value in the manifest",
                        f"{name} must come from a Secret",
                    )


RULE = ResourceRule(
    name="plain-secrets",
    description="Environment variables with tokens, passwords or keys come from a Secret.",
    applies=is_workload,
    check=_check,
    reference="Kubernetes: good practices for Secrets; Secret Manager add-on",
    on_objects=OnObjects(
        subject="files",
        fix="use a Secret with secretKeyRef",
    ),
)
