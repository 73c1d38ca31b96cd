"""The unauthenticated port of the kubelet is closed."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import CLUSTER, at, is_type
from policies.framework.resources import Resource
from policies.framework.rule import Config, ResourceRule

_FIELD = ("nodePoolDefaults", "nodeConfigDefaults", "insecureKubeletReadonlyPortEnabled")


def _check(resource: Resource, _: Config) -> Iterator[Finding]:
    if at(resource.props, "enableAutopilot") is True:
        return  # always on there
    value = at(resource.props, *_FIELD)
    if value != "FALSE":
        yield broken(resource, ".".join(_FIELD), quoted(value), "must be 'FALSE'")


RULE = ResourceRule(
    name="kubelet-port",
    description="The unauthenticated read-only port of the kubelet is closed.",
    applies=is_type(CLUSTER),
    check=_check,
    reference="GKE: disable the insecure kubelet read-only port",
)
