"""Runs invariants on a set of objects."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from policies.framework.finding import Finding, Verdict
from policies.framework.rule import Invariant
from policies.objects.documents import Source
from policies.objects.world import World, world_of

_LONGEST_VALUE = 80


@dataclass(frozen=True)
class Report:
    """Findings of a set of invariants."""

    objects: int
    rules: int
    findings: tuple[Finding, ...]

    def of(self, verdict: Verdict) -> list[Finding]:
        """Return the findings of one verdict."""
        return [each for each in self.findings if each.verdict is verdict]

    @property
    def is_sound(self) -> bool:
        """Whether no invariant is broken. Unknown findings do not count."""
        return not self.of(Verdict.BROKEN)


def check_objects(sources: Iterable[Source], invariants: Iterable[Invariant[World]]) -> Report:
    """Return the findings of the invariants by cluster, broken ones first."""
    rules = list(invariants)
    worlds = [world_of(source) for source in sources]
    found = [
        replace(finding, value=_cut(finding.value), rule=rule.name, world=world.name)
        for world in worlds
        for rule in rules
        for finding in rule.check(world)
    ]
    once = dict.fromkeys(found)  # duplicates: a container in two groups, a pod selected twice
    ordered = sorted(once, key=lambda each: (each.verdict, each.world, each.rule, each.object))
    return Report(sum(len(world.objects) for world in worlds), len(rules), tuple(ordered))


def _cut(value: str) -> str:
    return value if len(value) <= _LONGEST_VALUE else f"{value[: _LONGEST_VALUE - 3]}..."
