"""Shares of Filestore as folders of this machine."""

from pathlib import Path

from gke_inference.catalogue.filestore import DRIVER
from twin.cluster.agent.launching.environment import ConfigError
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects.filestore import folder_of
from twin.wire.kube import JsonObject
from twin.wire.property_values import get_path
from twin.world.store import Record, list_resources

_CLUSTER = "gcp:container/cluster:Cluster"
_INSTANCE = "gcp:filestore/instance:Instance"
_ADDON = "addonsConfig.gcpFilestoreCsiDriverConfig.enabled"


def share_folder(paths: TwinPaths, cluster: str, handle: str, attributes: JsonObject) -> Path:
    """Return the folder of a file share that a cluster mounts (rule cloud.filestore).

    Args:
        paths: Files of the twin.
        cluster: Name of the cluster.
        handle: Of the volume: modeInstance/LOCATION/INSTANCE/SHARE.
        attributes: Of the volume: `ip` and `volume`.

    Raises:
        ConfigError: The cluster has no driver, or there is no such share.
    """
    resources = [each for each in list_resources(paths) if each.status == "ready"]
    if not any(_has_driver(each, cluster) for each in resources):
        raise ConfigError(f"driver name {DRIVER} not found in the list of registered CSI drivers")
    mode, location, name, share = (*handle.split("/"), "", "", "", "")[:4]
    if mode == "modeInstance" and attributes.get("volume") == share:
        for each in resources:
            if _is_share(each, location, name, share, str(attributes.get("ip"))):
                return folder_of(paths, name) / share
    raise ConfigError(
        f"rpc error: code = Internal desc = mount {attributes.get('ip')}:/{share} failed: no such"
        f" share of Filestore instance {name!r} in {location!r}"
    )


def _has_driver(record: Record, cluster: str) -> bool:
    if (record.type, record.name) != (_CLUSTER, cluster):
        return False
    # Autopilot clusters always have it
    return bool(record.outputs.get("enableAutopilot") or get_path(record.outputs, _ADDON))


def _is_share(record: Record, location: str, name: str, share: str, address: str) -> bool:
    if (record.type, record.name) != (_INSTANCE, name):
        return False
    found = record.outputs
    return (found.get("location") or found.get("zone"), found["fileShares"]["name"]) == (
        location,
        share,
    ) and address in found["networks"][0]["ipAddresses"]
