"""A bucket that holds something is not deleted with the stack."""

from collections.abc import Iterator

from policies.reading import BUCKET, PRODUCTION_CONFIG, at, is_production, is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    if not is_production(resource, config):
        return
    if at(resource.props, "softDeletePolicy", "retentionDurationSeconds") == 0:
        return  # what it holds can be made again, such as a compile cache
    value = at(resource.props, "forceDestroy")
    if value is True:
        yield f"forceDestroy: must be off for what is kept in production, got {value!r}"


RULE = Rule(
    name="bucket-deletion",
    description="Buckets that keep deleted objects are not emptied by a destroy, in production.",
    applies=is_type(BUCKET),
    check=_check,
    reference="Cloud Storage: a bucket with objects cannot be deleted",
    config=PRODUCTION_CONFIG,
)
