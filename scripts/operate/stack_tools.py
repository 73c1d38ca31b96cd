"""The tools that a stack needs, as purposes of twin/tools/modules.yaml."""

from gke_inference.catalogue.pickers import GIE, LLM_D_ROUTER, picker_line
from infra.plan import Plan
from twin.toolchain import modules
from twin.toolchain.cache import origin_of
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
    if LLM_D_ROUTER in plan.platform.gateway.picker_lines:
        purposes.append("llm_d_router")
    if plan.clients is not None:
        purposes.append("clients")
    if plan.platform.queues:
        purposes.append("queues")
    if any(region.has_job_sets for region in plan.regions.values()):
        purposes.append("job_sets")
    if plan.backends is not None:
        purposes.append("backends")
    return purposes


def picker_stand_in(plan: Plan) -> str | None:
    """Return the line that says that another picker runs on the twin, or None if none does."""
    if LLM_D_ROUTER not in plan.platform.gateway.picker_lines:
        return None
    if origin_of(modules()[LLM_D_ROUTER]).get("from") == "release":
        return None
    released, stand_in = picker_line(LLM_D_ROUTER).release, picker_line(GIE).release
    return (
        f"The twin has no {released}: {stand_in} runs in its place, with its flags, configuration"
        " and metrics (docs/pickers.md)."
    )


def environments_of(plan: Plan) -> list[PythonEnvironment]:
    """Return the Python environments that programs of a stack run in on the twin."""
    return [GUARDRAILS] if plan.guardrails.guards else []
