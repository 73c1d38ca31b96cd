"""Only images that were attested run in production."""

from collections.abc import Iterator

from policies.reading import CLUSTER, PRODUCTION_CONFIG, at, is_production, is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    if not is_production(resource, config):
        return
    value = at(resource.props, "binaryAuthorization", "evaluationMode")
    if value in (None, "DISABLED"):
        yield f"binaryAuthorization.evaluationMode: must enforce a policy, got {value!r}"


RULE = Rule(
    name="verified-images",
    description="Clusters of production admit images by Binary Authorization.",
    applies=is_type(CLUSTER),
    check=_check,
    reference="CIS GKE Benchmark 5.10.4 (Binary Authorization)",
    level="advisory",
    config=PRODUCTION_CONFIG,
)
