"""Accidentally deleted objects can be restored."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import BUCKET, PRODUCTION_CONFIG, at, is_production, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_WEEK_SECONDS = 604_800


def _check(resource: Resource, config: Config) -> Iterator[Finding]:
    if not is_production(resource, config) or at(resource.props, "forceDestroy") is True:
        return  # objects that are deleted with the stack need no recovery
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
    description="In production, deleted objects can be restored for a week.",
    applies=is_type(BUCKET),
    check=_check,
    reference="Cloud Storage: soft delete",
    config=PRODUCTION_CONFIG,
)
