"""What guardrails cost: Model Armor is paid for by the tokens that it reads."""

from collections.abc import Iterator

from infra.cost.parts import CLUSTER, Part, always, part
from infra.plan.guardrails import has_armor
from infra.stack import Platform


def guardrail_parts(platform: Platform, region: str) -> Iterator[Part]:
    """Yield what the guardrails of a region cost.

    Guards in the cluster run on its system nodes, which are counted as they are.
    """
    if has_armor(platform):
        unit = "region, by tokens of prompts and answers"
        yield part(CLUSTER, "Model Armor", region, None, always(1), unit=unit)
