"""Clients do not see from which software, and which replica's load, a response comes."""

from collections.abc import Iterator
from typing import Any

from gke_inference.catalogue.response_headers import hidden_headers
from policies.framework.finding import Finding, broken
from policies.framework.reading import at, entries
from policies.framework.rule import Invariant
from policies.objects.world import World

_POOLS = ("GCPInferencePoolImport", "InferencePool")


def _check(world: World) -> Iterator[Finding]:
    for route in world.of("HTTPRoute"):
        for index, rule in enumerate(entries(route.body, "spec", "rules")):
            kinds = {at(each, "kind") for each in entries(rule, "backendRefs")}
            left = sorted({*hidden_headers()} - _removed(rule))
            if left and kinds & set(_POOLS):
                yield broken(
                    route,
                    f"spec.rules[{index}].filters",
                    left[0] if len(left) == 1 else f"{left[0]} and {len(left) - 1} more",
                    "responses of engines and pickers have headers that no client needs",
                    f"add a filter ResponseHeaderModifier that removes {', '.join(left)}",
                )


def _removed(rule: Any) -> set[str]:
    removed: set[str] = set()
    for each in entries(rule, "filters"):
        names: list[Any] = at(each, "responseHeaderModifier", "remove") or []
        removed |= {str(name).lower() for name in names}
    return removed


RULE = Invariant(
    name="responses-hide-software",
    description="Routes to pools remove the response headers that name software or show load.",
    reference="OWASP Secure Headers Project: headers to remove; envoyproxy/envoy #39382",
    check=_check,
)
