"""Destroying a stack does not delete buckets with data."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import BUCKET, PRODUCTION_CONFIG, at, is_production, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, config: Config) -> Iterator[Finding]:
    if not is_production(resource, config):
        return
    if at(resource.props, "softDeletePolicy", "retentionDurationSeconds") == 0:
        return  # its content can be re-created, such as a compile cache
    value = at(resource.props, "forceDestroy")
    if value is True:
        yield broken(
            resource, "forceDestroy", quoted(value), "must be off for retained production data"
        )


RULE = ResourceRule(
    name="bucket-deletion",
    description="In production, a destroy does not empty buckets that retain deleted objects.",
    applies=is_type(BUCKET),
    check=_check,
    reference="Cloud Storage: a bucket with objects cannot be deleted",
    config=PRODUCTION_CONFIG,
)
