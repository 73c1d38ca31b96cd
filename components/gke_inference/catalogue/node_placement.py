"""Compact placement: GPU nodes that Compute Engine places close to each other on request.

Sources: docs.cloud.google.com/kubernetes-engine/docs/how-to/compact-placement and
docs.cloud.google.com/ai-hypercomputer/docs/placement-policy-and-workload-policy; which machine
types have it is in data/accelerators.yaml.
"""

from gke_inference.settings import Word

from .accelerators import accelerator, accelerator_names
from .input_error import InputError


class NodePlacement(Word):
    """Where in a zone the nodes of a rung are."""

    COMPACT = "compact"
    ANY = "any"


PLACED_PROVISIONING = ("on-demand", "spot", "flex-start")
"""Provisioning models with a placement of their own: a reservation has the placement that it was
made with."""


def can_be_compact(name: str, provisioning: str) -> bool:
    """Return whether nodes of an accelerator can have compact placement."""
    compact = accelerator(name).compact
    if compact is None or provisioning not in PLACED_PROVISIONING:
        return False
    return compact.flex_start or provisioning != "flex-start"


def node_placement(
    given: NodePlacement | None, name: str, provisioning: str, where: str = ""
) -> str | None:
    """Return the placement of a rung's nodes: `compact`, or None for any.

    Args:
        given: Value from the user, or None.
        name: Accelerator, as the user names it.
        provisioning: Provisioning model of the rung.
        where: Path of the rung in the user's input.

    Raises:
        InputError: The nodes cannot have the placement. The path ends with `placement`.
    """
    field = f"{where}.placement" if where else "placement"
    chip = accelerator(name)
    if given is None:
        return None
    if chip.kind == "tpu":
        rule = f"must not be set for {name}: 'topology' determines the placement of a slice"
        raise InputError(field, rule, given)
    if given is NodePlacement.ANY:
        return None
    if provisioning not in PLACED_PROVISIONING:
        rule = f"must be 'any' or unset with {provisioning}, which has its own placement"
        raise InputError(field, rule, given)
    if not can_be_compact(name, provisioning):
        able = [each for each in accelerator_names() if can_be_compact(each, provisioning)]
        rule = f"must be 'any' or unset for {name} by {provisioning}"
        raise InputError(field, rule, given, f"; {' and '.join(able)} can be compact")
    return "compact"
