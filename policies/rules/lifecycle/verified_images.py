"""Only attested images run in production."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import CLUSTER, PRODUCTION_CONFIG, at, is_production, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, config: Config) -> Iterator[Finding]:
    if not is_production(resource, config):
        return
    value = at(resource.props, "binaryAuthorization", "evaluationMode")
    if value in (None, "DISABLED"):
        yield broken(
            resource, "binaryAuthorization.evaluationMode", quoted(value), "must enforce a policy"
        )


RULE = ResourceRule(
    name="verified-images",
    description="Production clusters enforce Binary Authorization.",
    applies=is_type(CLUSTER),
    check=_check,
    cis=("4.5.1", "5.1.4"),
    reference="GKE: Binary Authorization",
    level="advisory",
    config=PRODUCTION_CONFIG,
)
