"""Routes stay within the API's limits on rules and matches."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.reading import entries
from policies.framework.rule import Invariant
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


RULE = Invariant(
    name="route-limits",
    description="Routes have at most 16 rules, 64 matches per rule and 128 matches in total.",
    reference="Gateway API HTTPRoute validation; kserve/website #749: 64 matches at 7 adapters",
    check=_check,
)
