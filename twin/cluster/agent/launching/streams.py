"""The worker of a stream: the platform's program, with the twin's Pub/Sub and buckets."""

from twin.cluster.agent.launching.place import Place
from twin.engines.stream_worker import stream_environment
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import clients


def command(arguments: list[str]) -> list[str]:
    """Return the command line; install the program's packages if they are missing.

    Raises:
        ToolError: They cannot be installed.
    """
    python = stream_environment().install(lambda _: None) / "bin" / "python"
    return [str(python), "-W", "ignore", "-m", "workloads.stream", *arguments]


def environment(place: Place) -> dict[str, str]:
    """Return the variables that point Google's client libraries to the twin's servers."""
    if place.root is None:
        return {}
    return clients.environment(TwinPaths(place.root), place.caller)
