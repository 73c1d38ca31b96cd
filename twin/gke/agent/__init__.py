"""The twin's node agent: pods of engines, pickers, routers and the catalogue become processes."""

from twin.gke.agent.agent import NodeAgent
from twin.gke.agent.records import stop_all

__all__ = ["NodeAgent", "stop_all"]
