"""Backends of routes exist, and allow references from the route's namespace."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, unknown
from policies.framework.reading import at, entries
from policies.framework.rule import Invariant
from policies.objects.backends import Backend, backends
from policies.objects.index import Obj
from policies.objects.world import World


def _check(world: World) -> Iterator[Finding]:
    for each in backends(world):
        if world.find(each.kind, each.namespace, each.name) is None:
            yield _absent(world, each)
        elif each.namespace != each.route.namespace and not _granted(world, each):
            yield broken(
                each.route,
                each.field,
                f"{each.namespace}/{each.name}",
                "is in another namespace, which does not grant access to this one",
                f"add a ReferenceGrant in {each.namespace}",
            )
    for route in world.of("GRPCRoute", "HTTPRoute"):
        yield from _parents(world, route)


def _absent(world: World, each: Backend) -> Finding:
    shown = f"{each.kind} {each.namespace}/{each.name}"
    if any(other.namespace == each.namespace for other in world.of(each.kind)):
        return broken(
            each.route,
            each.field,
            shown,
            "the backend does not exist: requests fail with 500",
            "use an existing one",
        )
    return unknown(
        each.route,
        each.field,
        shown,
        f"no {each.kind} of the namespace was read",
        f"check the {each.kind}s, too",
    )


def _granted(world: World, each: Backend) -> bool:
    for grant in world.of("ReferenceGrant"):
        if grant.namespace != each.namespace:
            continue
        given = any(
            at(source, "kind") == each.route.kind
            and at(source, "namespace") == each.route.namespace
            for source in entries(grant.body, "spec", "from")
        )
        to = any(
            at(target, "kind") == each.kind and at(target, "name") in (None, each.name)
            for target in entries(grant.body, "spec", "to")
        )
        if given and to:
            return True
    return False


def _parents(world: World, route: Obj) -> Iterator[Finding]:
    known = list(world.of("Gateway"))
    for index, parent in enumerate(entries(route.body, "spec", "parentRefs")):
        if at(parent, "kind") not in (None, "Gateway"):
            continue
        name = str(at(parent, "name"))
        if world.find("Gateway", str(at(parent, "namespace") or route.namespace), name):
            continue
        field = f"spec.parentRefs[{index}]"
        if known:
            yield broken(
                route,
                field,
                name,
                "the Gateway does not exist: the route is never attached",
                "use an existing one",
            )
        else:
            yield unknown(route, field, name, "no Gateway was read", "also check the Gateway")


RULE = Invariant(
    name="routes-lead-somewhere",
    description="Backends and parents of routes exist; other namespaces need a ReferenceGrant.",
    reference="Gateway API; gateway-api-inference-extension #1591: BackendNotFound",
    check=_check,
)
