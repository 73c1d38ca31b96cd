"""Model weights are never public."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import at, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    uniform = at(resource.props, "uniformBucketLevelAccess")
    if uniform is not True:
        yield broken(resource, "uniformBucketLevelAccess", quoted(uniform), "must be true")
    prevention = at(resource.props, "publicAccessPrevention")
    if prevention != "enforced":
        yield broken(resource, "publicAccessPrevention", quoted(prevention), "must be 'enforced'")


RULE = ResourceRule(
    name="private-bucket",
    description="Buckets use uniform bucket-level access and public access prevention.",
    applies=is_type("gcp:storage/bucket:Bucket"),
    check=_check,
    reference="CIS Google Cloud Foundation Benchmark 5.1, 5.2",
)
