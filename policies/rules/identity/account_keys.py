"""No key of a service account can be copied, as there is none."""

from collections.abc import Iterator

from policies.reading import is_type
from policies.rule import Config, Resource, Rule


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    yield f"{resource.name}: must not be made, got a key that lasts until somebody deletes it"


RULE = Rule(
    name="account-keys",
    description="No keys of service accounts are made; workloads and CI use federation.",
    applies=is_type("gcp:serviceaccount/key:Key"),
    check=_check,
    reference="CIS Google Cloud Foundation Benchmark 1.4; Google: avoid service account keys",
)
