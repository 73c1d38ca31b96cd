"""The worker of a stream: its own program, with the twin's Pub/Sub and buckets."""

from pathlib import Path

from twin.engines.stream_worker import stream_environment
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import gcs, pubsub


def command(arguments: list[str]) -> list[str]:
    """Return the command line; what the program runs with is installed where it is missing.

    Raises:
        ToolError: it cannot be installed.
    """
    python = stream_environment().install(lambda _: None) / "bin" / "python"
    return [str(python), "-W", "ignore", "-m", "workloads.stream", *arguments]


def environment(root: Path | None) -> dict[str, str]:
    """Return where the clients of Google find the twin's servers."""
    if root is None:
        return {}
    paths = TwinPaths(root)
    bus = pubsub.address(paths)
    found = {"STORAGE_EMULATOR_HOST": gcs.url(paths)}
    return found if bus is None else {**found, "PUBSUB_EMULATOR_HOST": bus}
