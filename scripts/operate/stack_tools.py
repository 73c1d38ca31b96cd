"""The tools that a stack needs, as purposes of twin/tools/modules.yaml."""

from infra.plan import Plan
from infra.plan.backends import has_backends
from infra.plan.clients import gated
from infra.plan.guardrails import has_guards
from twin.toolchain.python_environments import GUARDRAILS, PythonEnvironment


def purposes_of(plan: Plan) -> list[str]:
    """Return the purposes that a deployment of a stack on the twin needs before it starts.

    Monitoring is excluded: nothing waits for it, so it is prepared during the deployment.
    """
    purposes = ["engine", "cluster"]
    if any(region.has_groups for region in plan.regions.values()):
        purposes.append("groups")
    if any(region.has_ray_clusters for region in plan.regions.values()):
        purposes.append("ray")
    if any(model.disaggregated is not None for model in plan.platform.models.values()):
        purposes.append("roles")
    if gated(plan.platform) is not None:
        purposes.append("clients")
    if plan.platform.queues:
        purposes.append("queues")
    if any(region.has_job_sets for region in plan.regions.values()):
        purposes.append("job_sets")
    if has_backends(plan.platform):
        purposes.append("backends")
    return purposes


def environments_of(plan: Plan) -> list[PythonEnvironment]:
    """Return the Python environments that programs of a stack run in on the twin."""
    return [GUARDRAILS] if has_guards(plan.platform) else []
