"""Service accounts of pods exist."""

from collections.abc import Iterator

from policies.framework.finding import Finding, absent
from policies.framework.reading import at
from policies.framework.rule import Invariant
from policies.objects.world import World

_BECAUSE = ("no ServiceAccount of this name is in the namespace", "use an existing one, or add it")
_UNREAD = ("no ServiceAccounts of the namespace were read", "also check the service accounts")


def _check(world: World) -> Iterator[Finding]:
    for pod in world.pods:
        name = at(pod.spec, "serviceAccountName")
        namespace = pod.obj.namespace
        if not name or name == "default" or world.find("ServiceAccount", namespace, str(name)):
            continue
        field = pod.at("spec.serviceAccountName")
        is_read = any(each.namespace == namespace for each in world.of("ServiceAccount"))
        yield absent(pod.obj, field, name, _BECAUSE, None if is_read else _UNREAD)


RULE = Invariant(
    name="accounts-exist",
    description="Pods use existing service accounts.",
    reference="Kubernetes: pods of a missing account are refused",
    check=_check,
)
