"""The twin's node agent: pods of engines, pickers, routers and the catalogue become processes."""

from typing import Any

from twin.gke.agent.agent import NodeAgent
from twin.gke.agent.records import stop_all

__all__ = ["NodeAgent", "admission_objects", "stop_all"]


def admission_objects() -> list[dict[str, Any]]:
    """Return what must be installed in a cluster for the agent: nothing.

    Which pods are the agent's follows from their images (`claims`), and KWOK's stages ask the same.
    """
    return []
