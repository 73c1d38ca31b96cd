"""A bucket that holds something is not deleted with the stack."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import BUCKET, PRODUCTION_CONFIG, at, is_production, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, config: Config) -> Iterator[Finding]:
    if not is_production(resource, config):
        return
    if at(resource.props, "softDeletePolicy", "retentionDurationSeconds") == 0:
        return  # what it holds can be made again, such as a compile cache
    value = at(resource.props, "forceDestroy")
    if value is True:
        yield broken(
            resource, "forceDestroy", quoted(value), "must be off for what is kept in production"
        )


RULE = ResourceRule(
    name="bucket-deletion",
    description="Buckets that keep deleted objects are not emptied by a destroy, in production.",
    applies=is_type(BUCKET),
    check=_check,
    reference="Cloud Storage: a bucket with objects cannot be deleted",
    config=PRODUCTION_CONFIG,
)
