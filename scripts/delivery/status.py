"""The delivery status of clusters: revision, errors, and rollouts."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from gke_inference.catalogue.versions import api
from gke_inference.delivery.model_delivery import SYNC_NAME
from infra.stack import DeliveryTool
from scripts.shared.clusters import Cluster, answering
from scripts.terminal.console import console
from scripts.terminal.tables import Column, Listing, print_table
from twin.wire.kube import Kube, KubeError

SHORT: Final = 12
"""Characters of a commit or digest in output."""
Object = dict[str, Any]


@dataclass(frozen=True)
class Delivered:
    """Delivery status of one cluster."""

    cluster: str
    revision: str
    """Revision of the source that the cluster last saw; empty if none."""
    synced: str
    """Revision that was last applied completely."""
    errors: tuple[str, ...]
    rollouts: tuple[str, ...]
    """Workloads whose new replicas are not all ready."""
    tried: str = ""
    """Revision that was last applied, completely or not; apply errors refer to it."""

    @property
    def state(self) -> str:
        """One word: `errors`, `waiting`, `syncing`, `rolling-out` or `synced`."""
        if self.errors:
            return "errors"
        if not self.revision:
            return "waiting"
        if self.synced != self.revision:
            return "syncing"
        return "rolling-out" if self.rollouts else "synced"

    def as_json(self) -> dict[str, Any]:
        """Return its fields as `delivery status -o json` shows them."""
        return {**asdict(self), "state": self.state}


def find_delivered(
    clusters: Iterable[Cluster], namespace: str, tool: DeliveryTool
) -> list[Delivered]:
    """Return the status of each cluster, by its name.

    Args:
        clusters: Clusters to look at.
        namespace: Namespace of the team.
        tool: Tool that applies the tree.

    Raises:
        CommandError: A cluster does not answer.
    """
    found: list[Delivered] = []
    for cluster in clusters:
        with answering(cluster) as kube:
            read = _config_sync if tool is DeliveryTool.CONFIG_SYNC else _argo_cd
            revision, synced, tried, errors = read(kube, namespace)
            rollouts = tuple(_rollouts(kube, namespace))
        found.append(Delivered(cluster.name, revision, synced, errors, rollouts, tried))
    return sorted(found, key=lambda one: one.cluster)


def _read(kube: Kube, lock_name: str, plural: str, namespace: str, name: str) -> Object | None:
    """Return an object, or None if it or its kind does not exist."""
    try:
        return kube.get(
            f"/apis/{api(lock_name).api_version}/namespaces/{namespace}/{plural}/{name}"
        )
    except KubeError as error:
        if error.status == 404:
            return None
        raise


def _config_sync(kube: Kube, namespace: str) -> tuple[str, str, str, tuple[str, ...]]:
    obj = _read(kube, "repo_sync", "reposyncs", namespace, SYNC_NAME)
    if obj is None:
        return "", "", "", (f"no RepoSync {SYNC_NAME} in the namespace {namespace}",)
    status: Mapping[str, Any] = obj.get("status") or {}
    places: list[Object] = [status.get(name) or {} for name in ("source", "rendering", "sync")]
    listed: list[list[Object]] = [place.get("errors") or [] for place in places]
    errors = [str(each.get("errorMessage")) for some in listed for each in some]
    errors += [
        str(each.get("message"))
        for each in status.get("conditions") or ()
        if each["type"] == "Stalled" and each["status"] == "True"
    ]
    revision = str(places[0].get("commit") or "")
    synced, tried = str(status.get("lastSyncedCommit") or ""), str(places[2].get("commit") or "")
    return revision, synced, tried, tuple(dict.fromkeys(errors))


def _argo_cd(kube: Kube, namespace: str) -> tuple[str, str, str, tuple[str, ...]]:
    obj = _read(kube, "argo_application", "applications", namespace, namespace)
    if obj is None:
        return "", "", "", (f"no Application {namespace} in the namespace {namespace}",)
    status: Mapping[str, Any] = obj.get("status") or {}
    sync: Mapping[str, Any] = status.get("sync") or {}
    revision = str(sync.get("revision") or "")
    errors = [
        f"{each['type']}: {each.get('message')}"
        for each in status.get("conditions") or ()
        if str(each["type"]).endswith("Error")
    ]
    operation: Mapping[str, Any] = status.get("operationState") or {}
    result: Mapping[str, Any] = operation.get("syncResult") or {}
    tried = str(result.get("revision") or revision)
    return revision, revision if sync.get("status") == "Synced" else "", tried, tuple(errors)


def _rollouts(kube: Kube, namespace: str) -> Iterator[str]:
    """Yield the workloads whose newest version does not serve yet."""
    yield from _deployments(kube, namespace)
    yield from _groups(kube, namespace)


def _groups(kube: Kube, namespace: str) -> Iterator[str]:
    """Yield the LeaderWorkerSets that roll out; the kind exists only with groups of hosts."""
    path = f"/apis/{api('leader_worker_set').api_version}/namespaces/{namespace}/leaderworkersets"
    try:
        found = kube.list(path)
    except KubeError as error:
        if error.status == 404:
            return
        raise
    for obj in found:
        status: Mapping[str, Any] = obj.get("status") or {}
        wanted = int(obj["spec"].get("replicas", 1))
        new = int(status.get("updatedReplicas") or 0)
        ready = int(status.get("readyReplicas") or 0)
        if new < wanted or ready < wanted or int(status.get("replicas") or 0) > max(new, wanted):
            yield f"{obj['metadata']['name']}: {new} of {wanted} new, {ready} ready"


def _deployments(kube: Kube, namespace: str) -> Iterator[str]:
    for obj in kube.list(f"/apis/apps/v1/namespaces/{namespace}/deployments"):
        status: Mapping[str, Any] = obj.get("status") or {}
        wanted = int(obj["spec"].get("replicas", 1))
        new = int(status.get("updatedReplicas") or 0)
        ready = int(status.get("availableReplicas") or 0)
        is_seen = int(status.get("observedGeneration") or 0) >= int(obj["metadata"]["generation"])
        if (
            is_seen
            and new >= wanted
            and ready >= wanted
            and int(status.get("replicas") or 0) == new
        ):
            continue
        why = next(
            (
                f" ({each.get('message')})"
                for each in status.get("conditions") or ()
                if each["type"] == "Progressing" and each["status"] == "False"
            ),
            "",
        )
        yield f"{obj['metadata']['name']}: {new} of {wanted} new, {ready} available{why}"


def print_delivered(found: list[Delivered]) -> None:
    """Print the status and the problems of clusters."""
    table = Listing("CLUSTER", "STATE", "SOURCE", Column("SYNCED", spare=1))
    for one in found:
        notes = [*one.errors, *(f"rollout of {each}" for each in one.rollouts)]
        cells = (one.cluster, one.state, _short(one.revision), _short(one.synced))
        table.add_row(*cells, style="red" if one.errors else "", notes=notes)
    print_table(table)
    if any(one.errors for one in found):
        console.print("Previously applied objects keep running.")


def _short(revision: str) -> str:
    return revision.removeprefix("sha256:")[:SHORT] or "-"
