"""Settings of a relay on the twin: its address, its account, and the servers that it calls."""

from pathlib import Path

from twin.cluster.agent.launching.place import Place
from twin.host.paths import TwinPaths
from twin.model_providers import server as model_providers
from twin.providers.gcp.effects import secret_manager
from twin.wire.kube import JsonObject


def flags(pod: JsonObject, kubeconfig: Path) -> list[str]:
    """Return the additional flags of a relay.

    Args:
        pod: Pod of the relay.
        kubeconfig: Kubeconfig of the pod; the files of its account are beside it.
    """
    account = kubeconfig.parent / "serviceaccount"
    return [f"--address={pod['status']['podIP']}", f"--account={account}"]


def has_token(pod: JsonObject) -> bool:
    """Return whether a pod has a token of its service account."""
    return bool(pod["spec"].get("automountServiceAccountToken", True))


def environment(place: Place) -> dict[str, str]:
    """Return the variables that send a relay's calls to the twin's providers, for any host.

    Without a folder of the twin, there are no providers.
    """
    if place.root is None:
        return {}
    paths = TwinPaths(place.root)
    address = model_providers.address(paths)
    return {
        "GCE_METADATA_HOST": address,
        "IAM_CREDENTIALS_ENDPOINT": f"http://{address}",
        "RELAY_HOSTS": f"*=http://{address}",
        "SECRET_MANAGER_ENDPOINT": secret_manager.url(paths) + place.caller.path,
    }
