"""Runs invariants over what was read."""

from collections.abc import Iterable
from dataclasses import dataclass

from policies.invariants.documents import Source
from policies.invariants.finding import Finding, Invariant, Verdict
from policies.invariants.world import Obj, World


@dataclass(frozen=True)
class Report:
    """What some invariants found."""

    objects: int
    rules: int
    findings: tuple[Finding, ...]

    def of(self, verdict: Verdict) -> list[Finding]:
        """Return the findings of one verdict."""
        return [each for each in self.findings if each.verdict is verdict]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is broken; what is unknown is not broken."""
        return not self.of(Verdict.BROKEN)


def world_of(source: Source) -> World:
    """Return the objects of one cluster, indexed."""
    objects = tuple(Obj(each.body, each.file) for each in source.documents)
    return World(source.name, objects, source.resources)


def judge(sources: Iterable[Source], invariants: Iterable[Invariant]) -> Report:
    """Return what the invariants find, cluster by cluster, broken ones first."""
    rules = list(invariants)
    worlds = [world_of(source) for source in sources]
    found = [
        finding.of(rule.name, world.name)
        for world in worlds
        for rule in rules
        for finding in rule.check(world)
    ]
    once = dict.fromkeys(found)  # a container of two groups, a pod selected twice
    ordered = sorted(once, key=lambda each: (each.verdict, each.world, each.rule, each.object))
    return Report(sum(len(world.objects) for world in worlds), len(rules), tuple(ordered))
