"""The tools that the parts of a stack need, as purposes of twin/tools/modules.yaml."""

from infra.plan import Plan
from infra.plan.clients import gated


def purposes_of(plan: Plan) -> list[str]:
    """Return what a deployment of a stack on the twin needs before it starts.

    Monitoring is left out: nothing waits for it, so it is prepared beside the deployment.
    """
    purposes = ["engine", "cluster"]
    if any(region.has_groups for region in plan.regions.values()):
        purposes.append("groups")
    if any(model.disaggregated is not None for model in plan.platform.models.values()):
        purposes.append("roles")
    if gated(plan.platform) is not None:
        purposes.append("clients")
    return purposes
