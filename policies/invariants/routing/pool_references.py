"""Objectives reference existing pools, and pools reference existing pickers on the right port."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, unknown
from policies.framework.reading import at, entries
from policies.framework.rule import Invariant
from policies.objects.index import Obj
from policies.objects.world import World


def _check(world: World) -> Iterator[Finding]:
    for each in world.of("InferenceObjective"):
        name = str(each.at("spec", "poolRef", "name"))
        yield from _named(world, each, "spec.poolRef", "InferencePool", name)
    for pool in world.of("InferencePool"):
        reference = pool.at("spec", "endpointPickerRef") or pool.at("spec", "extensionRef")
        field = "spec.endpointPickerRef"
        if reference is None:
            yield broken(
                pool,
                field,
                None,
                "there is no picker to choose replicas: requests fail",
                "use the picker's Service",
            )
            continue
        name = str(at(reference, "name"))
        yield from _named(world, pool, field, "Service", name)
        service = world.find("Service", pool.namespace, name)
        port = at(reference, "port", "number") or at(reference, "portNumber")
        ports = (
            [at(each, "port") for each in entries(service.body, "spec", "ports")]
            if (service)
            else []
        )
        if port is not None and ports and port not in ports:
            yield broken(
                pool,
                f"{field}.port",
                port,
                f"Service {name} has {', '.join(map(str, ports))}",
                "use the picker's port",
            )


def _named(world: World, obj: Obj, field: str, kind: str, name: str) -> Iterator[Finding]:
    if world.find(kind, obj.namespace, name) is not None:
        return
    if any(each.namespace == obj.namespace for each in world.of(kind)):
        yield broken(
            obj, field, name, f"no {kind} of this name is in the namespace", "use an existing one"
        )
    else:
        yield unknown(
            obj, field, name, f"no {kind} of the namespace was read", f"check the {kind}s, too"
        )


RULE = Invariant(
    name="pool-references",
    description="Objectives reference existing pools, and pools an existing picker Service.",
    reference="Gateway API inference extension: InferencePool, InferenceObjective",
    check=_check,
)
