"""Costs of guardrails: Model Armor is billed by the tokens that it reads."""

from collections.abc import Iterator

from infra.cost.parts import CLUSTER, Part, always, part
from infra.plan.guardrails import has_armor
from infra.stack import Platform


def guardrail_parts(platform: Platform, region: str) -> Iterator[Part]:
    """Yield the costs of a region's guardrails.

    Guards in the cluster run on its system nodes, which are already counted.
    """
    if has_armor(platform):
        unit = "region, by tokens of prompts and answers"
        yield part(CLUSTER, "Model Armor", region, None, always(1), unit=unit)
