"""No key of a service account can be copied, as there is none."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    yield broken(
        resource, resource.name, "a key that lasts until somebody deletes it", "must not be made"
    )


RULE = ResourceRule(
    name="account-keys",
    description="No keys of service accounts are made; workloads and CI use federation.",
    applies=is_type("gcp:serviceaccount/key:Key"),
    check=_check,
    reference="CIS Google Cloud Foundation Benchmark 1.4; Google: avoid service account keys",
)
