"""Variables that point Google's client libraries to the twin's servers."""

from twin.host.paths import TwinPaths
from twin.providers.gcp.bigquery import server as bigquery
from twin.providers.gcp.effects import gcs, pubsub


def environment(paths: TwinPaths) -> dict[str, str]:
    """Return the variables of a program that uses buckets, Pub/Sub and tables of BigQuery."""
    found = {"STORAGE_EMULATOR_HOST": gcs.url(paths)}
    others = {
        "BIGQUERY_EMULATOR_HOST": bigquery.address(paths),
        "PUBSUB_EMULATOR_HOST": pubsub.address(paths),
    }
    return found | {name: at for name, at in others.items() if at is not None}
