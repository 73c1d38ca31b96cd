"""The resource in which Pulumi keeps a stack's outputs."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

STACK_TYPE: Final = "pulumi:pulumi:Stack"


def outputs_in(resources: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the outputs of the stack with these resources; none if it was never up."""
    for each in resources:
        if each["type"] == STACK_TYPE:
            return dict(each.get("outputs") or {})
    return {}
