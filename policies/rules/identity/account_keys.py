"""No service account keys, which could be copied."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    yield broken(resource, resource.name, "a key that never expires", "must not be made")


RULE = ResourceRule(
    name="account-keys",
    description="No service account keys are created; workloads and CI use federation.",
    applies=is_type("gcp:serviceaccount/key:Key"),
    check=_check,
    reference="CIS Google Cloud Foundation Benchmark 1.4; Google: avoid service account keys",
)
