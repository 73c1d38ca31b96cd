"""What was deleted by mistake can be had back."""

from collections.abc import Iterator

from policies.reading import BUCKET, PRODUCTION_CONFIG, at, is_production, is_type
from policies.rule import Config, Resource, Rule

_WEEK_SECONDS = 604_800


def _check(resource: Resource, config: Config) -> Iterator[str]:
    if not is_production(resource, config) or at(resource.props, "forceDestroy") is True:
        return  # what is deleted with the stack was never to be kept
    kept = at(resource.props, "softDeletePolicy", "retentionDurationSeconds")
    versioned = at(resource.props, "versioning", "enabled") is True
    if not versioned and kept is not None and int(kept) < _WEEK_SECONDS:
        yield (
            "softDeletePolicy.retentionDurationSeconds: must be at least "
            f"{_WEEK_SECONDS} in production, got {kept!r}"
        )


RULE = Rule(
    name="recoverable-bucket",
    description="Deleted objects of production can be restored for a week.",
    applies=is_type(BUCKET),
    check=_check,
    reference="Cloud Storage: soft delete",
    config=PRODUCTION_CONFIG,
)
