"""The twin's node agent: pods of engines, pickers, routers and the catalogue become processes."""

from twin.cluster.agent.agent import NodeAgent
from twin.cluster.agent.records import stop_all

__all__ = ["NodeAgent", "stop_all"]
