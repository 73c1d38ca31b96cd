"""A simulated Config Sync for a cluster whose fleet enables it.

Its kinds exist once the cluster's membership has the feature. A `Syncing` then handles each
RepoSync `repo-sync` with the permissions of its reconciler's service account.
"""

import base64
import logging
import threading
from collections.abc import Mapping
from pathlib import Path

import yaml

from twin.cluster.base.context import ClusterContext
from twin.cluster.base.fields import part, text_map
from twin.cluster.base.informer import Informer
from twin.cluster.delivery.applying import remove
from twin.cluster.delivery.sources import Secret
from twin.cluster.delivery.syncing import Syncing
from twin.wire.kube import JsonObject, KubeError
from twin.wire.property_values import last_segment
from twin.world.store import Record, list_resources

_LOG = logging.getLogger(__name__)
_API = "/apis/configsync.gke.io/v1beta1"
_CRDS = Path(__file__).parent / "crds"
_NAMESPACE = "config-management-system"
_MEMBERSHIP = "gcp:gkehub/membership:Membership"
_FEATURE = "gcp:gkehub/featureMembership:FeatureMembership"
_MANAGER = "gke"
_PROPAGATION = "configsync.gke.io/deletion-propagation-policy"
_FINALIZER = "configsync.gke.io/reconciler"
_LOOK_SECONDS = 1.0
_WAIT_SECONDS = 2.0


class ConfigSync:
    """Config Sync of one cluster; idle if the fleet does not enable it."""

    def __init__(self, ctx: ClusterContext) -> None:
        self._ctx = ctx
        self._wake = threading.Event()
        self._syncs: dict[str, Syncing] = {}

    def run(self, stop: threading.Event) -> None:
        """Wait until Config Sync is installed, and sync until `stop` is set."""
        while not stop.is_set() and not self._is_enabled():
            stop.wait(_WAIT_SECONDS)
        if stop.is_set():
            return
        self._install()
        own_stop = threading.Event()
        informer = Informer(self._ctx.watches, f"{_API}/reposyncs", self._wake)
        informer.start(own_stop)
        try:
            while not stop.is_set():
                if informer.synced.is_set():
                    self._look(informer.items())
                self._wake.wait(_LOOK_SECONDS)
                self._wake.clear()
                stop.wait(_LOOK_SECONDS / 10)
        finally:
            own_stop.set()
            for each in self._syncs.values():
                each.stop()
            self._syncs.clear()

    def _is_enabled(self) -> bool:
        """Return whether the cluster's fleet membership enables Config Sync."""
        spec = self._ctx.spec
        suffix = f"/locations/{spec.location}/clusters/{spec.name}"
        found = list_resources(self._ctx.paths, (_MEMBERSHIP, _FEATURE))
        records = [each for each in found if each.status == "ready"]
        members = {
            each.name
            for each in records
            if each.type == _MEMBERSHIP
            and str(_link(each)).endswith(f"projects/{spec.project}{suffix}")
        }
        return any(
            each.type == _FEATURE
            and last_segment(str(each.inputs.get("membership"))) in members
            and _has_config_sync(each)
            for each in records
        )

    def _install(self) -> None:
        """Install the kinds and the reconcilers' namespace."""
        kube = self._ctx.kube
        for file in sorted(_CRDS.glob("*.yaml")):
            kube.apply(yaml.safe_load(file.read_text()), manager=_MANAGER)
        space: JsonObject = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": _NAMESPACE},
        }
        kube.apply(space, manager=_MANAGER)

    def _look(self, objects: list[JsonObject]) -> None:
        wanted = {obj["metadata"]["namespace"]: obj for obj in objects}
        for namespace in set(self._syncs) - set(wanted):
            self._syncs.pop(namespace).stop()
        for namespace, obj in wanted.items():
            if namespace not in self._syncs:
                self._syncs[namespace] = Syncing(
                    self._ctx,
                    namespace,
                    self._ctx.tool("kubectl"),
                    self._wake,
                    self._secrets(namespace),
                )
            if "deletionTimestamp" in obj["metadata"]:
                self._take_away(obj)
                continue
            self._hold(obj)
            status = self._syncs[namespace].look(obj)
            if status != obj.get("status"):
                self._patch(obj, {"status": status}, "/status")

    def _hold(self, obj: JsonObject) -> None:
        """Add the finalizer if a RepoSync requests that its objects are deleted first."""
        metadata = obj["metadata"]
        held: list[str] = metadata.get("finalizers") or []
        wants = text_map(metadata, "annotations").get(_PROPAGATION) == "Foreground"
        if wants and _FINALIZER not in held:
            self._patch(obj, {"metadata": {"finalizers": [*held, _FINALIZER]}})

    def _take_away(self, obj: JsonObject) -> None:
        """Delete the objects of a deleted RepoSync, and remove its finalizer."""
        metadata = obj["metadata"]
        if _FINALIZER not in (metadata.get("finalizers") or []):
            return
        context = self._ctx
        kubectl, namespace = context.tool("kubectl"), str(metadata["namespace"])
        if refused := remove(kubectl, context.kubeconfig, context.kube, namespace):
            _LOG.warning("%s: its objects are not gone: %s", namespace, refused)
            return
        kept = [each for each in metadata["finalizers"] if each != _FINALIZER]
        self._patch(obj, {"metadata": {"finalizers": kept}})

    def _patch(self, obj: JsonObject, change: JsonObject, part: str = "") -> None:
        """Change a RepoSync; ignore a deleted one."""
        metadata = obj["metadata"]
        path = f"{_API}/namespaces/{metadata['namespace']}/reposyncs/{metadata['name']}{part}"
        try:
            self._ctx.kube.patch(path, change)
        except KubeError as error:
            if error.status != 404:
                raise

    def _secrets(self, namespace: str) -> Secret:
        """Return a function that reads the Secrets of a namespace."""

        def secret(name: str) -> Mapping[str, str] | None:
            try:
                found = self._ctx.kube.get(f"/api/v1/namespaces/{namespace}/secrets/{name}")
            except KubeError:
                return None
            data = text_map(found, "data")
            return {key: base64.b64decode(value).decode() for key, value in data.items()}

        return secret


def _link(membership: Record) -> str:
    """Return the cluster of a membership."""
    return str(part(membership.inputs, "endpoint", "gkeCluster").get("resourceLink") or "")


def _has_config_sync(feature: Record) -> bool:
    return bool(part(feature.inputs, "configmanagement", "configSync").get("enabled"))
