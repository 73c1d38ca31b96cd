"""Variables that point Google's client libraries to the twin's servers."""

from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import gcs, pubsub


def environment(paths: TwinPaths) -> dict[str, str]:
    """Return the variables of a program that uses buckets and Pub/Sub."""
    bus = pubsub.address(paths)
    found = {"STORAGE_EMULATOR_HOST": gcs.url(paths)}
    return found if bus is None else {**found, "PUBSUB_EMULATOR_HOST": bus}
