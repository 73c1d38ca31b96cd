"""A pod's volumes as folders of this machine.

Buckets and persistent volumes are folders that all pods of the twin share and that outlive the
pods, so a compile cache in a bucket survives a restart. ConfigMaps, Secrets and similar volumes are
written for each pod and deleted with it.
"""

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gke_inference.catalogue.files import filestore, lustre
from twin.cluster.agent.launching.environment import ConfigError, Sources, field
from twin.cluster.agent.launching.tokens import token_of
from twin.cluster.base.fields import part
from twin.cluster.nodes.disks import DRIVER, PROVISIONED
from twin.host.private_files import private_folder, write_private
from twin.wire.kube import JsonObject, Kube, KubeError

FUSE_DRIVER = "gcsfuse.csi.storage.gke.io"
_REFRESHED = frozenset({"configMap", "secret"})


def is_refreshed(pod: JsonObject) -> bool:
    """Return whether a pod has volumes whose files follow an object of the API."""
    return any(_REFRESHED & volume.keys() for volume in pod["spec"].get("volumes", []))


def _replace_changed(fresh: Path, folder: Path) -> None:
    """Replace the files of a folder that differ, each atomically."""
    for file in fresh.rglob("*"):
        target = folder / file.relative_to(fresh)
        if file.is_file() and not (target.exists() and target.read_bytes() == file.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            file.replace(target)


class MountError(Exception):
    """A volume cannot be mounted (`FailedMount`): its pod stays in `ContainerCreating`."""


@dataclass(frozen=True)
class Mount:
    """A volume where a container sees it."""

    path: str
    folder: Path
    read_only: bool


class Volumes:
    """Creates the folders of one pod's volumes.

    Args:
        kube: API server, for ConfigMaps, Secrets, claims and tokens.
        pod: Pod with the volumes.
        own: Folder for data that is deleted with the pod.
        shared: Folder for data that outlives the pod.
        file_share: Returns the folder of a Filestore share or a Lustre instance, by driver,
            handle and attributes.
        check_profile: Rejects a storage class whose volumes GKE tunes if it cannot tune the
            bucket, by class and bucket.
        check_access: Rejects a bucket that the pod may not list.
        disk: Returns the folder of a disk by its handle.
    """

    def __init__(
        self,
        kube: Kube,
        pod: JsonObject,
        own: Path,
        shared: Path,
        file_share: Callable[[str, str, JsonObject], Path],
        check_profile: Callable[[str, str], None] | None = None,
        check_access: Callable[[str], None] | None = None,
        disk: Callable[[str], Path] | None = None,
    ) -> None:
        self._kube = kube
        self._pod = pod
        self._namespace: str = pod["metadata"]["namespace"]
        self._own = own
        self._shared = shared
        self._file_share = file_share
        self._check_profile = check_profile
        self._check_access = check_access
        self._disk = disk
        self._sources = Sources(kube, self._namespace)

    def make(self) -> dict[str, Path]:
        """Return the folder of each volume by name.

        Raises:
            MountError: A referenced object is missing; the kubelet would retry.
        """
        folders: dict[str, Path] = {}
        for volume in self._pod["spec"].get("volumes", []):
            name: str = volume["name"]
            try:
                folders[name] = self._one(volume)
            except ConfigError as error:
                text = f'MountVolume.SetUp failed for volume "{name}" : {error}'
                raise MountError(text) from error
        return folders

    def references(self) -> list[tuple[str, str]]:
        """Return the objects that the pod's files follow, as plural of the kind and name."""
        volumes = self._pod["spec"].get("volumes", [])
        maps = [("configmaps", one["configMap"]["name"]) for one in volumes if "configMap" in one]
        secrets = [("secrets", one["secret"]["secretName"]) for one in volumes if "secret" in one]
        return maps + secrets

    def refresh(self) -> None:
        """Update the files with changes of ConfigMaps and Secrets, as the kubelet does.

        Raises:
            ConfigError: A referenced object no longer exists.
            KubeError: The API server does not respond.
        """
        for volume in self._pod["spec"].get("volumes", []):
            for kind in _REFRESHED & volume.keys():
                folder = self._own / "volumes" / volume["name"]
                fresh = self._own / "refreshed" / volume["name"]
                shutil.rmtree(fresh, ignore_errors=True)
                private_folder(fresh)
                self._writers()[kind](volume[kind], fresh)
                _replace_changed(fresh, folder)

    def _writers(self) -> dict[str, Callable[[JsonObject, Path], None]]:
        return {
            "configMap": self._config_map,
            "downwardAPI": self._downward,
            "projected": self._projected,
            "secret": self._secret,
        }

    def _one(self, volume: JsonObject) -> Path:
        for kind, writer in self._writers().items():
            if kind in volume:
                folder = self._own / "volumes" / volume["name"]
                shutil.rmtree(folder, ignore_errors=True)
                private_folder(folder)
                writer(volume[kind], folder)
                return folder
        folder = self._lasting(volume) or self._own / "volumes" / volume["name"]
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _lasting(self, volume: JsonObject) -> Path | None:
        """Return the folder of a volume that outlives the pod, or None for other volumes."""
        if "csi" in volume:
            return self._csi(volume["csi"], volume["csi"].get("volumeAttributes", {}))
        if "persistentVolumeClaim" in volume:
            return self._claimed(volume["persistentVolumeClaim"]["claimName"])
        if "ephemeral" in volume:
            return self._claimed(f"{self._pod['metadata']['name']}-{volume['name']}")
        if "hostPath" in volume:
            host: str = volume["hostPath"]["path"]
            return self._shared / "hosts" / self._pod["spec"]["nodeName"] / host.lstrip("/")
        return None

    def _csi(self, source: JsonObject, attributes: JsonObject) -> Path:
        if source["driver"] == FUSE_DRIVER:
            bucket = attributes.get("bucketName") or source.get("volumeHandle", "")
            options = str(attributes.get("mountOptions", ""))
            only = re.search(r"only-dir[:=]([^,]+)", options)
            stored = self._shared.parent / "gcs" / bucket  # as clients of Cloud Storage upload it
            if not stored.is_dir():
                raise ConfigError(
                    f'rpc error: code = NotFound desc = failed to get GCS bucket "{bucket}": '
                    "storage: bucket doesn't exist"
                )
            if self._check_access:
                self._check_access(bucket)
            folder = stored if source.get("readOnly") else self._shared / "buckets" / bucket
            return folder / only.group(1).strip("/") if only else folder
        if source["driver"] in (filestore.DRIVER, lustre.DRIVER):
            handle = str(source.get("volumeHandle", ""))
            return self._file_share(source["driver"], handle, attributes)
        handle = str(source.get("volumeHandle", ""))
        if source["driver"] == DRIVER and self._disk is not None:
            return self._disk(handle)
        return self._provisioned(handle)

    def _provisioned(self, handle: str) -> Path:
        """Return the folder of a volume that began empty."""
        return self._shared / "disks" / re.sub(r"[^\w.-]", "_", handle)

    def _claimed(self, claim: str) -> Path:
        base = f"/api/v1/namespaces/{self._namespace}/persistentvolumeclaims/{claim}"
        try:
            spec = self._kube.get(base)["spec"]
            name = spec.get("volumeName")
            if name:
                found = self._kube.get(f"/api/v1/persistentvolumes/{name}")
                volume = found["spec"]
                if part(found, "metadata", "annotations").get(PROVISIONED) == DRIVER:
                    return self._provisioned(str(volume["csi"]["volumeHandle"]))
                if "csi" in volume:
                    if self._check_profile and volume["csi"]["driver"] == FUSE_DRIVER:
                        handle = str(volume["csi"].get("volumeHandle", ""))
                        self._check_profile(str(volume.get("storageClassName", "")), handle)
                    options: str = ",".join(volume.get("mountOptions", []))
                    given: JsonObject = volume["csi"].get("volumeAttributes") or {}
                    attributes: JsonObject = {"mountOptions": options, **given}
                    return self._csi(volume["csi"], attributes)
        except KubeError as error:
            if error.status == 404:
                raise ConfigError(f'persistentvolumeclaim "{claim}" not found') from error
            raise
        return self._shared / "claims" / self._namespace / claim

    def _config_map(self, source: JsonObject, folder: Path) -> None:
        self._write_keys("configmaps", source["name"], source, folder)

    def _secret(self, source: JsonObject, folder: Path) -> None:
        name = source.get("secretName") or source["name"]
        self._write_keys("secrets", name, source, folder)

    def _write_keys(self, kind: str, name: str, source: JsonObject, folder: Path) -> None:
        optional = bool(source.get("optional"))
        content = self._sources.content(kind, name, optional=optional)
        items = source.get("items") or [{"key": key, "path": key} for key in content]
        for item in items:
            if item["key"] not in content:
                if optional:
                    continue
                raise ConfigError(f"references non-existent config key: {item['key']}")
            file = folder / item["path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            write_private(file, content[item["key"]])

    def _downward(self, source: JsonObject, folder: Path) -> None:
        for item in source.get("items", []):
            path: str = item.get("fieldRef", {}).get("fieldPath", "")
            if path in {"metadata.labels", "metadata.annotations"}:
                entries: dict[str, str] = self._pod["metadata"].get(path.split(".")[1], {})
                text = "\n".join(f'{key}="{value}"' for key, value in sorted(entries.items()))
            else:
                text = field(self._pod, path) if path else ""
            write_private(folder / item["path"], text)

    def _projected(self, source: JsonObject, folder: Path) -> None:
        for each in source.get("sources", []):
            if "configMap" in each:
                self._config_map(each["configMap"], folder)
            elif "secret" in each:
                self._secret(each["secret"], folder)
            elif "downwardAPI" in each:
                self._downward(each["downwardAPI"], folder)
            elif "serviceAccountToken" in each:
                text = token_of(self._kube, self._pod)
                write_private(folder / each["serviceAccountToken"]["path"], text)

    def mounts(self, container: JsonObject, folders: dict[str, Path]) -> list[Mount]:
        """Return the container's paths with their folders, the deepest path first."""
        out = [
            Mount(
                mount["mountPath"].rstrip("/") or "/",
                folders[mount["name"]] / mount.get("subPath", ""),
                bool(mount.get("readOnly")),
            )
            for mount in container.get("volumeMounts", [])
            if mount["name"] in folders
        ]
        return sorted(out, key=lambda mount: len(mount.path), reverse=True)


def rewrite(text: str, mounts: list[Mount]) -> str:
    """Replace paths of the container in an argument by the folders that represent them."""
    for pattern, folder in moves(mounts):
        text, found = re.subn(pattern, lambda _, folder=folder: folder, text)
        if found:
            break
    return text


def moves(mounts: list[Mount]) -> list[tuple[str, str]]:
    """Return a pattern of each mount's path in an argument, and its folder."""
    return [
        (rf"(?<![\w./-]){re.escape(mount.path)}(?=$|[/\s\"',:])", str(mount.folder))
        for mount in mounts
    ]
