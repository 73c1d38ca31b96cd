"""A pod that finds no rung waits, instead of landing on a machine without its chips."""

from collections.abc import Iterator

from policies.reading import at, is_kubernetes
from policies.rule import Config, Resource, Rule

_WANTED = "DoNotScaleUp"


def _check(resource: Resource, config: Config) -> Iterator[str]:
    del config
    value = at(resource.props, "spec", "whenUnsatisfiable")
    if value != _WANTED:
        yield f"spec.whenUnsatisfiable: must be {_WANTED!r}, got {value!r}"


RULE = Rule(
    name="waiting-class",
    description="A compute class whose rungs are all empty makes pods wait (DoNotScaleUp).",
    applies=is_kubernetes("ComputeClass"),
    check=_check,
    reference="ComputeClass reference: whenUnsatisfiable",
)
