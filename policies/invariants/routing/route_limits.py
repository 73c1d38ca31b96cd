"""Routes stay within the API's limits on rules and matches, and within one URL map."""

from collections import defaultdict
from collections.abc import Iterator

from gke_inference.catalogue.url_maps import MAX_URL_MAP_BYTES, url_map_bytes
from policies.framework.finding import Finding, broken
from policies.framework.reading import at, entries
from policies.framework.rule import Invariant
from policies.objects.index import Obj
from policies.objects.world import World

_RULES, _MATCHES, _ALL_MATCHES = 16, 64, 128


def _check(world: World) -> Iterator[Finding]:
    for route in world.of("HTTPRoute"):
        rules = entries(route.body, "spec", "rules")
        counts = [len(entries(rule, "matches")) for rule in rules]
        if len(rules) > _RULES:
            yield broken(
                route,
                "spec.rules",
                len(rules),
                f"a route has at most {_RULES} rules",
                "split it into several routes",
            )
        for index, count in enumerate(counts):
            if count > _MATCHES:
                yield broken(
                    route,
                    f"spec.rules[{index}].matches",
                    count,
                    f"a rule has at most {_MATCHES} matches: exact adapter names quickly "
                    "exhaust them",
                    "split the route, or match in the body router",
                )
        if sum(counts) > _ALL_MATCHES and max(counts) <= _MATCHES:
            yield broken(
                route,
                "spec.rules[].matches",
                sum(counts),
                f"a route has at most {_ALL_MATCHES} matches",
                "split it into several routes",
            )
    yield from _large_url_maps(world)


def _large_url_maps(world: World) -> Iterator[Finding]:
    by_gateway: dict[tuple[str, str], list[Obj]] = defaultdict(list)
    for route in world.of("HTTPRoute"):
        parents = {
            (str(at(parent, "namespace") or route.namespace), str(at(parent, "name")))
            for parent in entries(route.body, "spec", "parentRefs")
            if (at(parent, "kind") or "Gateway") == "Gateway"
        }
        for gateway in parents:  # once, however many of its listeners the route names
            by_gateway[gateway].append(route)
    for (namespace, name), routes in by_gateway.items():
        size = url_map_bytes(route.body for route in routes)
        if size > MAX_URL_MAP_BYTES:
            yield broken(
                routes[0],
                "spec.parentRefs",
                size,
                f"the {len(routes):,} routes of Gateway {namespace}/{name} become one URL map,"
                f" which has at most {MAX_URL_MAP_BYTES:,} bytes",
                "divide the models over several stacks: each has a gateway of its own",
            )


RULE = Invariant(
    name="route-limits",
    description="Routes have at most 16 rules, 64 matches per rule and 128 matches in total, and"
    " those of a Gateway fit into a URL map of 1 MB.",
    reference="Gateway API HTTPRoute validation; kserve/website #749: 64 matches at 7 adapters;"
    " docs.cloud.google.com/load-balancing/docs/routing-config-size-quota",
    check=_check,
)
