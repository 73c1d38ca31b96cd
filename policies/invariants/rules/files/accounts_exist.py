"""The service account of a pod exists."""

from collections.abc import Iterator

from policies.invariants.finding import Finding, Invariant, broken, unknown
from policies.invariants.world import World
from policies.reading import at


def _check(world: World) -> Iterator[Finding]:
    for pod in world.pods:
        name = at(pod.spec, "serviceAccountName")
        namespace = pod.obj.namespace
        if not name or name == "default" or world.find("ServiceAccount", namespace, str(name)):
            continue
        field = pod.at("spec.serviceAccountName")
        if any(each.namespace == namespace for each in world.of("ServiceAccount")):
            yield broken(
                pod.obj,
                field,
                name,
                "no ServiceAccount of this name is in the namespace",
                "name one that is, or add it",
            )
        else:
            yield unknown(
                pod.obj,
                field,
                name,
                "no ServiceAccount of the namespace was read",
                "check the accounts, too",
            )


INVARIANT = Invariant(
    name="accounts-exist",
    holds="Pods run as service accounts that exist.",
    source="Kubernetes: pods of a missing account are refused",
    check=_check,
)
