"""Rules of the policy pack that look at Kubernetes objects, as invariants: one text, two uses."""

from collections.abc import Iterator

from policies.invariants.finding import Finding, Invariant, broken
from policies.invariants.world import World
from policies.rule import Rule, StackRule


def of_rule(rule: Rule, fix: str, source: str) -> Invariant:
    """Return a rule about one resource as an invariant."""

    def check(world: World) -> Iterator[Finding]:
        for obj in world.objects:
            if rule.applies(obj.resource):
                for message in rule.check(obj.resource, {}):
                    field, value, why = _parts(message)
                    yield broken(obj, field, value, why, fix)

    return Invariant(rule.name, rule.description, source, check)


def of_stack_rule(rule: StackRule, fix: str, source: str) -> Invariant:
    """Return a rule about resources that belong together as an invariant."""

    def check(world: World) -> Iterator[Finding]:
        by_title = {obj.title: obj for obj in world.objects}
        for title, message in rule.check([obj.resource for obj in world.objects], {}):
            field, value, why = _parts(message)
            yield broken(by_title[title], field, value, why, fix)

    return Invariant(rule.name, rule.description, source, check)


def _parts(message: str) -> tuple[str, str, str]:
    """Return field, value and reason of a message `field: rule, got value`."""
    field, _, rest = message.partition(": ")
    why, _, value = rest.rpartition(", got ")
    return (field, value, why) if why else (field, "", rest)
