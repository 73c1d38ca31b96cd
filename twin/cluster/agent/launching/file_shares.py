"""Shares of Filestore and instances of Managed Lustre as folders of this machine."""

from pathlib import Path

from gke_inference.catalogue.files import filestore, lustre
from gke_inference.catalogue.versions import gke_minimum, version_key
from twin.cluster.agent.launching.environment import ConfigError
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import filestore as shares
from twin.providers.gcp.effects import lustre as instances
from twin.wire.kube import JsonObject
from twin.wire.property_values import get_path
from twin.world.store import Record, list_resources

_CLUSTER = "gcp:container/cluster:Cluster"
_INSTANCE = "gcp:filestore/instance:Instance"
_LUSTRE = "gcp:lustre/instance:Instance"
_ADDONS = {
    filestore.DRIVER: "addonsConfig.gcpFilestoreCsiDriverConfig.enabled",
    lustre.DRIVER: "addonsConfig.lustreCsiDriverConfig.enabled",
}
_LEGACY = "addonsConfig.lustreCsiDriverConfig.enableLegacyLustrePort"


def share_folder(
    paths: TwinPaths,
    cluster: str,
    driver: str,
    handle: str,
    attributes: JsonObject,
    *,
    kind: str,
) -> Path:
    """Return the folder that a cluster mounts (rules cloud.filestore and cloud.lustre).

    Args:
        paths: Files of the twin.
        cluster: Name of the cluster.
        driver: CSI driver of the volume.
        handle: Handle of the volume: modeInstance/LOCATION/INSTANCE/SHARE for Filestore,
            PROJECT/ZONE/INSTANCE for Lustre.
        attributes: Attributes of the volume: `ip` with `volume` or `filesystem`.
        kind: Hardware of the node: `tpu`, `gpu` or `cpu`.

    Raises:
        ConfigError: The cluster has no driver, or there is no such share or instance.
    """
    found = list_resources(paths, (_CLUSTER, _INSTANCE, _LUSTRE))
    resources = [each for each in found if each.status == "ready"]
    if not any(_has_driver(each, cluster, driver) for each in resources):
        raise ConfigError(f"driver name {driver} not found in the list of registered CSI drivers")
    if driver == lustre.DRIVER:
        if kind != "gpu":
            raise ConfigError(
                "rpc error: code = Internal desc = failed to load Lustre's kernel modules: the node"
                " has secure boot and no GPU"
            )
        return _lustre_folder(paths, resources, cluster, handle, attributes)
    mode, location, name, share = (*handle.split("/"), "", "", "", "")[:4]
    if mode == "modeInstance" and attributes.get("volume") == share:
        for each in resources:
            if _is_share(each, location, name, share, str(attributes.get("ip"))):
                return shares.folder_of(paths, name) / share
    raise ConfigError(
        f"rpc error: code = Internal desc = mount {attributes.get('ip')}:/{share} failed: no such"
        f" share of Filestore instance {name!r} in {location!r}"
    )


def _lustre_folder(
    paths: TwinPaths,
    resources: list[Record],
    cluster: str,
    handle: str,
    attributes: JsonObject,
) -> Path:
    """Return the folder of an instance that the nodes of a cluster can reach."""
    project, zone, name = (*handle.split("/"), "", "", "")[:3]
    target = f"{attributes.get('ip')}@tcp:/{attributes.get('filesystem')}"
    wrong = f"no such Managed Lustre instance {name!r} in {zone!r}"
    for each in resources:
        if (each.type, each.name, each.project) != (_LUSTRE, name, project):
            continue
        if (each.outputs.get("location"), each.outputs.get("mountPoint")) != (zone, target):
            continue
        if _is_reachable(each, next(one for one in resources if _is(one, cluster))):
            return instances.folder_of(paths, name)
        wrong = f"{name!r} listens on another port than the driver of this cluster uses"
    raise ConfigError(f"rpc error: code = Internal desc = mount {target} failed: {wrong}")


def _is_reachable(instance: Record, cluster: Record) -> bool:
    """Return whether instance and driver use the same port.

    An instance with GKE support, and a driver with the legacy port, use 6988. Older nodes cannot
    use 988, which their metadata server has.
    """
    is_legacy = bool(get_path(cluster.outputs, _LEGACY))
    is_new = version_key(str(cluster.outputs.get("nodeVersion"))) >= version_key(
        gke_minimum("lustre")
    )
    return bool(instance.outputs.get("gkeSupportEnabled")) == is_legacy and (is_legacy or is_new)


def _is(record: Record, cluster: str) -> bool:
    return (record.type, record.name) == (_CLUSTER, cluster)


def _has_driver(record: Record, cluster: str, driver: str) -> bool:
    if not _is(record, cluster):
        return False
    # Autopilot clusters always have that of Filestore
    always = driver == filestore.DRIVER and bool(record.outputs.get("enableAutopilot"))
    return always or bool(get_path(record.outputs, _ADDONS[driver]))


def _is_share(record: Record, location: str, name: str, share: str, address: str) -> bool:
    if (record.type, record.name) != (_INSTANCE, name):
        return False
    found = record.outputs
    return (found.get("location") or found.get("zone"), found["fileShares"]["name"]) == (
        location,
        share,
    ) and address in found["networks"][0]["ipAddresses"]
