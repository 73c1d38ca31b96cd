"""The port of the kubelet that asks for no credentials is closed."""

from collections.abc import Iterator

from policies.reading import CLUSTER, at, is_type
from policies.rule import Config, Resource, Rule

_FIELD = ("nodePoolDefaults", "nodeConfigDefaults", "insecureKubeletReadonlyPortEnabled")


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    if at(resource.props, "enableAutopilot") is True:
        return  # always on there
    value = at(resource.props, *_FIELD)
    if value != "FALSE":
        yield f"{'.'.join(_FIELD)}: must be 'FALSE', got {value!r}"


RULE = Rule(
    name="kubelet-port",
    description="The read-only port of the kubelet, which asks for no credentials, is closed.",
    applies=is_type(CLUSTER),
    check=_check,
    reference="GKE: disable the insecure kubelet read-only port",
)
