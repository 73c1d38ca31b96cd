"""The node agent: acts as the kubelet of all nodes of the twin for pods that become processes."""

import logging
import shutil
import threading
import time

from twin.cluster.agent import records
from twin.cluster.agent.config_versions import ConfigVersions
from twin.cluster.agent.images import Images
from twin.cluster.agent.launching.claims import is_claimed
from twin.cluster.agent.names import Names
from twin.cluster.agent.pod import PodRunner
from twin.cluster.base.context import ClusterContext
from twin.wire.kube import JsonObject, KubeError

_log = logging.getLogger("twin.cluster.agent")


def _lost(name: str) -> JsonObject:
    """Return a minimal Node object for a node that is gone, to end its pods."""
    return {"metadata": {"name": name, "uid": ""}}


class NodeAgent:
    """Runs the claimed pods of a cluster.

    KWOK assigns an address to every pod. After that, only the agent manages pods for which
    `claims.is_claimed` is true: their containers are processes, their conditions come from their
    own probes, and their deletion ends the processes. When the agent stops, processes keep running
    and the next agent adopts them. `records.stop_all` ends them.
    """

    def __init__(self, context: ClusterContext) -> None:
        self._context = context
        self._images = Images(context.rules)
        self._names = Names(context.dir)
        self._configs = ConfigVersions(context.watches)
        self._runners: dict[str, PodRunner] = {}
        self._lock = threading.Lock()
        self._synced = False

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set."""
        nodes = threading.Thread(target=self._watch_nodes, args=(stop,), name="agent-nodes")
        nodes.start()
        self._configs.start(stop)
        for kind, pod in self._context.watches.watch("/api/v1/pods", stop):
            if stop.is_set():
                break
            try:
                self._handle(kind, pod)
            except KubeError as error:
                _log.warning("%s", error)
            except Exception:  # noqa: BLE001  # one odd pod must not end the agent
                _log.exception("pod event")
        for runner in list(self._runners.values()):
            runner.leave()
        for runner in list(self._runners.values()):
            runner.join(2.0)
        nodes.join(5.0)

    def _handle(self, kind: str, pod: JsonObject) -> None:
        if kind == "SYNCED" and not self._synced:
            self._synced = True
            self._clean_up()
        if kind in ("SYNCED", "TICK") or not is_claimed(pod):
            return
        self._names.tell(pod, gone=kind == "DELETED")
        uid: str = pod["metadata"]["uid"]
        with self._lock:
            runner = self._runners.get(uid)
            if kind == "DELETED":
                if runner is not None:
                    runner.lose()
                    del self._runners[uid]
                return
            if runner is not None and (runner.alive or "deletionTimestamp" not in pod["metadata"]):
                runner.update(pod)
                return
        self._claim(pod)

    def _claim(self, pod: JsonObject) -> None:
        """Start running a pod once it is on a node and has an address."""
        current = pod.get("status", {})
        node_name = pod["spec"].get("nodeName")
        deleting = "deletionTimestamp" in pod["metadata"]
        if not node_name or (not current.get("podIP") and not deleting):
            return
        if current.get("phase") in ("Succeeded", "Failed") and not deleting:
            return
        try:
            node = self._context.kube.get(f"/api/v1/nodes/{node_name}")
        except KubeError as error:
            if error.status != 404:
                raise
            if not deleting:
                return
            node = _lost(node_name)
        runner = PodRunner(self._context, pod, node, self._images, self._configs)
        with self._lock:
            self._runners[runner.uid] = runner
        runner.update(pod)
        runner.start()

    def _watch_nodes(self, stop: threading.Event) -> None:
        for kind, node in self._context.watches.watch("/api/v1/nodes", stop):
            if stop.is_set():
                return
            if kind == "DELETED":
                self._images.forget(node)
                self._lose_node(node["metadata"]["name"])

    def _lose_node(self, name: str) -> None:
        with self._lock:
            lost = [runner for runner in self._runners.values() if runner.node_name == name]
        for runner in lost:
            runner.lose()

    def _clean_up(self) -> None:
        """End processes of an earlier agent whose pods no longer exist."""
        with self._lock:
            uids = set(self._runners)
        folders = records.stale_folders(self._context.dir, uids | self._all_uids())
        found = [
            record
            for folder in folders
            for file in folder.glob("*.process.json")
            if (record := records.read(file)) is not None
        ]
        if found:
            _log.info("ending %d processes of pods that are gone", len(found))
        records.end(found, grace=1.0)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)

    def _all_uids(self) -> set[str]:
        for _ in range(5):
            try:
                pods = self._context.kube.list("/api/v1/pods")
            except KubeError:
                time.sleep(0.5)
                continue
            return {pod["metadata"]["uid"] for pod in pods}
        raise KubeError(0, "Unreachable", "the pods cannot be listed", {})
