"""No permissions in a cluster for anyone who can merely reach it."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import CLUSTER, at, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_BINDINGS = (
    "enableInsecureBindingSystemAuthenticated",
    "enableInsecureBindingSystemUnauthenticated",
)


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    for name in _BINDINGS:
        value = at(resource.props, "rbacBindingConfig", name)
        if value is not False:
            yield broken(resource, f"rbacBindingConfig.{name}", quoted(value), "must be false")


RULE = ResourceRule(
    name="anonymous-rights",
    description="No role is bound to all authenticated or all unauthenticated users.",
    applies=is_type(CLUSTER),
    check=_check,
    cis=("4.1.8", "4.1.9", "4.1.10"),
    reference="GKE: rbac_binding_config",
)
