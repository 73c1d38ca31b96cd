"""What was deleted by mistake can be had back."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import BUCKET, PRODUCTION_CONFIG, at, is_production, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_WEEK_SECONDS = 604_800


def _check(resource: Resource, config: Config) -> Iterator[Finding]:
    if not is_production(resource, config) or at(resource.props, "forceDestroy") is True:
        return  # what is deleted with the stack was never to be kept
    kept = at(resource.props, "softDeletePolicy", "retentionDurationSeconds")
    versioned = at(resource.props, "versioning", "enabled") is True
    if not versioned and kept is not None and int(kept) < _WEEK_SECONDS:
        yield broken(
            resource,
            "softDeletePolicy.retentionDurationSeconds",
            quoted(kept),
            f"must be at least {_WEEK_SECONDS} in production",
        )


RULE = ResourceRule(
    name="recoverable-bucket",
    description="Deleted objects of production can be restored for a week.",
    applies=is_type(BUCKET),
    check=_check,
    reference="Cloud Storage: soft delete",
    config=PRODUCTION_CONFIG,
)
