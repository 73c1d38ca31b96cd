"""Nobody has rights in a cluster only because they could reach it."""

from collections.abc import Iterator

from policies.reading import CLUSTER, at, is_type
from policies.rule import Config, Resource, Rule

_BINDINGS = (
    "enableInsecureBindingSystemAuthenticated",
    "enableInsecureBindingSystemUnauthenticated",
)


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    for name in _BINDINGS:
        value = at(resource.props, "rbacBindingConfig", name)
        if value is not False:
            yield f"rbacBindingConfig.{name}: must be false, got {value!r}"


RULE = Rule(
    name="anonymous-rights",
    description="No role is bound to whoever is authenticated, or to whoever is not.",
    applies=is_type(CLUSTER),
    check=_check,
    reference="CIS GKE Benchmark 4.1.9, 4.1.10; GKE: rbac_binding_config",
)
