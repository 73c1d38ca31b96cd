"""What a relay finds on the twin: its address, its account, and everything that it calls."""

from pathlib import Path

from twin.elsewhere import server as elsewhere
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import secret_manager
from twin.wire.kube import JsonObject


def flags(pod: JsonObject, kubeconfig: Path) -> list[str]:
    """Return the flags of a relay beside its own.

    Args:
        pod: Of the relay.
        kubeconfig: Of the pod; the files of its account are beside it.
    """
    account = kubeconfig.parent / "serviceaccount"
    return [f"--address={pod['status']['podIP']}", f"--account={account}"]


def has_token(pod: JsonObject) -> bool:
    """Return whether a pod has a token of its service account."""
    return bool(pod["spec"].get("automountServiceAccountToken", True))


def environment(root: Path | None) -> dict[str, str]:
    """Return what leads a relay to the twin's providers, whatever host it calls.

    Args:
        root: Folder of the twin; None: there are none.
    """
    if root is None:
        return {}
    paths = TwinPaths(root)
    address = elsewhere.address(paths)
    return {
        "GCE_METADATA_HOST": address,
        "IAM_CREDENTIALS_ENDPOINT": f"http://{address}",
        "RELAY_HOSTS": f"*=http://{address}",
        "SECRET_MANAGER_ENDPOINT": secret_manager.url(paths),
    }
