"""Variables that point Google's client libraries to the twin's servers."""

from twin.host.paths import TwinPaths
from twin.providers.gcp.bigquery import server as bigquery
from twin.providers.gcp.effects import pubsub
from twin.providers.gcp.iam import endpoint
from twin.providers.gcp.iam.principals import Principal


def environment(paths: TwinPaths, caller: Principal) -> dict[str, str]:
    """Return the variables of a program that uses buckets, Pub/Sub and tables of BigQuery."""
    found = {"STORAGE_EMULATOR_HOST": endpoint.url(paths, caller)}
    others = {
        "BIGQUERY_EMULATOR_HOST": bigquery.address(paths),
        "PUBSUB_EMULATOR_HOST": pubsub.address_for(paths, caller),
    }
    return found | {name: at for name, at in others.items() if at is not None}
