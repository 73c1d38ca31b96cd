"""Kubernetes Secrets are encrypted with a project-owned key before they are stored."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import CLUSTER, PRODUCTION_CONFIG, at, is_production, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, config: Config) -> Iterator[Finding]:
    if not is_production(resource, config):
        return
    value = at(resource.props, "databaseEncryption", "state")
    if value not in ("ENCRYPTED", "ALL_OBJECTS_ENCRYPTION_ENABLED"):
        yield broken(
            resource, "databaseEncryption.state", quoted(value), "must be ENCRYPTED in production"
        )


RULE = ResourceRule(
    name="encrypted-secrets",
    description="Production clusters encrypt Kubernetes Secrets with your own key.",
    applies=is_type(CLUSTER),
    check=_check,
    cis=("5.3.1",),
    level="advisory",
    config=PRODUCTION_CONFIG,
)
