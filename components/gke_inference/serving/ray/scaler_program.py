"""Runs as many Ray clusters of each set as its scale says.

Run as `python3 -c` with the text of the client of the API server and of this file.

The first clusters of a set run, and the others are suspended, so they have no pods. KubeRay deletes
the pods of a suspended cluster, which end after their requests are answered.

- A cluster that waits for weights is left to the weights gate until the gate has opened it.
- A PodDisruptionBudget over Ray clusters needs a number of pods. It is one less than the pods of
  the clusters that should run.
- Every decision needs a complete answer of the API server. Without one, nothing changes.

Needs only the standard library. Configured by environment variables:

- CLUSTERS and SETS: API versions of RayCluster and RayClusterSet.
- NEEDS: Annotation of clusters that wait for weights.
- STATE: ConfigMap in which the weights gate records what it has opened.
- GKE_INFERENCE_ROOT: folder to use as `/` when reading the service account.
"""

import http.client
import json
import os
import sys
import time
from dataclasses import dataclass
from typing import Any

from gke_inference.serving.launcher.kube import Kube, KubeError

_LOOK_SECONDS = 2.0
_QUIET_SECONDS = 30
_RETRY_SECONDS = 5.0


@dataclass(frozen=True)
class Cluster:
    """A RayCluster."""

    name: str
    version: str
    """Its resource version: a change is made to what was read, or not at all."""
    is_suspended: bool
    is_held: bool
    """Whether the weights gate has not opened it yet."""
    is_ready: bool
    pods: int

    @classmethod
    def of(cls, item: "dict[str, Any]", opened: "dict[str, str]", needs: str) -> "Cluster":
        """Return a cluster of a list.

        Args:
            item: The object.
            opened: UID of each workload that the weights gate has opened, by its name.
            needs: Annotation of clusters that wait for weights.
        """
        metadata: dict[str, Any] = item["metadata"]
        status: dict[str, Any] = item.get("status") or {}
        notes: dict[str, str] = metadata.get("annotations") or {}
        listed: list[dict[str, str]] = status.get("conditions") or []
        workers = sum(int(each["replicas"]) for each in item["spec"].get("workerGroupSpecs") or ())
        conditions = {each["type"]: each["status"] for each in listed}
        return cls(
            name=str(metadata["name"]),
            version=str(metadata["resourceVersion"]),
            is_suspended=bool(item["spec"].get("suspend")),
            is_held=needs in notes and opened.get(metadata["name"]) != metadata["uid"],
            is_ready=conditions.get("HeadPodReady") == "True"
            and int(status.get("readyWorkerReplicas") or 0) >= workers,
            pods=1 + workers,
        )


class Scaler:
    """Scales the sets of one namespace.

    Args:
        kube: Client of the API server.
    """

    def __init__(self, kube: Kube) -> None:
        base = f"namespaces/{kube.namespace}"
        self._kube = kube
        self._needs = os.environ["NEEDS"]
        self._sets = f"apis/{os.environ['SETS']}/{base}/rayclustersets"
        self._clusters = f"apis/{os.environ['CLUSTERS']}/{base}/rayclusters"
        self._budgets = f"apis/policy/v1/{base}/poddisruptionbudgets"
        self._state = f"api/v1/{base}/configmaps/{os.environ['STATE']}"
        self._version = ""

    def look(self) -> bool:
        """Scale every set, and return whether each has as many ready clusters as it should.

        Raises:
            KubeError: The API server rejects a request.
            OSError: The API server does not answer.
        """
        found = self._kube.call("GET", self._sets)
        self._version = str(found["metadata"]["resourceVersion"])
        opened = self._opened()
        listed = self._kube.call("GET", self._clusters)["items"]
        items = {str(item["metadata"]["name"]): item for item in listed}
        is_settled = True
        for each in found["items"]:
            known = [
                Cluster.of(items[name], opened, self._needs) if name in items else None
                for name in each["spec"]["clusters"]  # one is missing while it is replaced
            ]
            try:
                is_settled = self._scale(each, known) and is_settled
            except KubeError as error:  # it must not keep the other sets from being scaled
                say("WARNING", f"{each['metadata']['name']}: {error}")
                is_settled = False
        return is_settled

    def wait(self) -> None:
        """Wait until a set changes, or until the timeout.

        Raises:
            KubeError: The API server rejects the request.
            OSError: The API server does not answer.
        """
        self._kube.wait(self._sets, self._version, _QUIET_SECONDS)

    def _scale(self, item: "dict[str, Any]", known: "list[Cluster | None]") -> bool:
        """Scale one set, and return whether it is settled."""
        name, spec = str(item["metadata"]["name"]), item["spec"]
        wanted = min(int(spec["replicas"]), len(known))
        first = [each for each in known[:wanted] if each is not None]
        rest = [each for each in known[wanted:] if each is not None]
        for each in first:
            if each.is_suspended and not each.is_held:
                self._suspend(each, False)
        for each in reversed(rest):
            if not each.is_suspended and not each.is_held:
                self._suspend(each, True)
        if len(first) == wanted:
            self._allow(str(spec["disruptionBudget"]), sum(each.pods for each in first) - 1)
        ready = sum(each.is_ready and not each.is_suspended for each in first)
        status = {
            "observedGeneration": int(item["metadata"]["generation"]),
            "readyReplicas": ready,
            "replicas": sum(not (each.is_held and each.is_suspended) for each in first),
        }
        if (item.get("status") or {}) != status:
            self._kube.call("PATCH", f"{self._sets}/{name}/status", {"status": status})
        return ready == wanted and not any(each.is_held for each in rest)

    def _suspend(self, cluster: Cluster, is_suspended: bool) -> None:
        body = {
            "metadata": {"resourceVersion": cluster.version},
            "spec": {"suspend": is_suspended},
        }
        self._kube.call("PATCH", f"{self._clusters}/{cluster.name}", body)
        say("INFO", f"{cluster.name} {'is suspended' if is_suspended else 'runs'}")

    def _allow(self, name: str, least: int) -> None:
        """Set the number of pods that a disruption budget keeps, if it exists."""
        try:
            budget = self._kube.call("GET", f"{self._budgets}/{name}")
        except KubeError as error:
            if error.code == 404:  # Pulumi creates it after the set
                return
            raise
        if budget["spec"].get("minAvailable") != max(0, least):
            body = {"spec": {"minAvailable": max(0, least)}}
            self._kube.call("PATCH", f"{self._budgets}/{name}", body)

    def _opened(self) -> "dict[str, str]":
        """Return the UID of each workload that the weights gate has opened, by its name."""
        try:
            answer = self._kube.call("GET", self._state)
        except KubeError as error:
            if error.code == 404:  # the gate has not opened any
                return {}
            raise
        texts: dict[str, str] = answer.get("data") or {}
        states = {name: json.loads(text) for name, text in texts.items()}
        return {name: str(each["uid"]) for name, each in states.items() if each["open"]}


def say(severity: str, message: str) -> None:
    """Write a line that Cloud Logging parses."""
    sys.stdout.write(json.dumps({"severity": severity, "message": message}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Scale the sets until the pod ends."""
    scaler = Scaler(Kube())
    while True:
        try:
            if scaler.look():
                scaler.wait()
            else:
                time.sleep(_LOOK_SECONDS)
        except (KubeError, OSError, ValueError, KeyError, http.client.HTTPException) as error:
            say("WARNING", f"looks again in {_RETRY_SECONDS:.0f} s: {error!r}")
            time.sleep(_RETRY_SECONDS)


if __name__ == "__main__":
    main()
