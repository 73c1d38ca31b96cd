"""Model weights are never public."""

from collections.abc import Iterator

from policies.reading import at, is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    uniform = at(resource.props, "uniformBucketLevelAccess")
    if uniform is not True:
        yield f"uniformBucketLevelAccess: must be true, got {uniform!r}"
    prevention = at(resource.props, "publicAccessPrevention")
    if prevention != "enforced":
        yield f"publicAccessPrevention: must be 'enforced', got {prevention!r}"


RULE = Rule(
    name="private-bucket",
    description="Buckets have uniform access and cannot be made public.",
    applies=is_type("gcp:storage/bucket:Bucket"),
    check=_check,
    reference="CIS Google Cloud Foundation Benchmark 5.1, 5.2",
)
