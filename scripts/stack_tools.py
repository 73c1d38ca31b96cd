"""The tools that the parts of a stack need, as purposes of twin/tools/modules.yaml."""

from infra.plan.capacity import has_groups
from infra.stack import Platform


def purposes_of(platform: Platform) -> list[str]:
    """Return what a deployment of a stack on the twin needs before it starts.

    Monitoring is left out: nothing waits for it, so it is prepared beside the deployment.
    """
    purposes = ["engine", "cluster"]
    if any(has_groups(platform, region) for region in platform.regions):
        purposes.append("groups")
    if any(model.disaggregated is not None for model in platform.models.values()):
        purposes.append("roles")
    return purposes
