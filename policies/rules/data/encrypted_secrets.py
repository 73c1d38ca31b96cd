"""Secrets are encrypted with a key of the project before they are stored."""

from collections.abc import Iterator

from policies.reading import CLUSTER, PRODUCTION_CONFIG, at, is_production, is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    if not is_production(resource, config):
        return
    value = at(resource.props, "databaseEncryption", "state")
    if value not in ("ENCRYPTED", "ALL_OBJECTS_ENCRYPTION_ENABLED"):
        yield f"databaseEncryption.state: must be ENCRYPTED in production, got {value!r}"


RULE = Rule(
    name="encrypted-secrets",
    description="Kubernetes Secrets of production are encrypted with a key of your own.",
    applies=is_type(CLUSTER),
    check=_check,
    reference="CIS GKE Benchmark 5.3.1 (Secrets encrypted with Cloud KMS)",
    level="advisory",
    config=PRODUCTION_CONFIG,
)
