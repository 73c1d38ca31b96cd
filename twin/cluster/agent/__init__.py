"""The twin's node agent, which runs pods of engines, pickers, routers and others as processes."""

from twin.cluster.agent.agent import NodeAgent
from twin.cluster.agent.records import stop_all

__all__ = ["NodeAgent", "stop_all"]
