"""Actions of the rails in this folder. NeMo Guardrails loads them when a guard starts."""

import re

from nemoguardrails.actions import action

_UNRELEASED = re.compile(r"\b(?:bluebird|project\s+heron)\b", re.IGNORECASE)


@action(is_system_action=True)
async def names_a_product(text: str) -> bool:
    """Return whether a text names an unreleased product."""
    return _UNRELEASED.search(text) is not None
