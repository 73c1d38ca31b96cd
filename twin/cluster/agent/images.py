"""Simulated image pulls on nodes."""

import re
import threading

from gke_inference.catalogue.image_contents import has_engine
from twin.cluster.nodes.node_objects import STREAMING_LABEL
from twin.wire.kube import JsonObject
from twin.world.rules import Rules

_OTHER_ENGINES = re.compile("vllm|sglang|tritonserver|text-generation-inference|diffusion")
"""Names of engines in images that the lock does not have, such as a user's own build."""
_BOOT_DISK_LABEL = "cloud.google.com.node-restriction.kubernetes.io/gke-secondary-boot-disk"


class Images:
    """Images that have been pulled on each node."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._there: dict[str, set[str]] = {}
        """Pulled images by UID of the node."""
        self._lock = threading.Lock()

    def pull_seconds(self, image: str, node: JsonObject) -> float:
        """Return the duration of a pull in seconds of Google's clock; 0 if the image is present."""
        with self._lock:
            if image in self._there.get(node["metadata"]["uid"], ()):
                return 0.0
        labels: dict[str, str] = node["metadata"].get("labels", {})
        if any(label.startswith(_BOOT_DISK_LABEL) for label in labels):
            return self._rules.seconds("agent.image.boot-disk")
        if not has_engine(image) and not _OTHER_ENGINES.search(image):
            return self._rules.seconds("agent.image.small")
        if labels.get(STREAMING_LABEL) == "true":
            return self._rules.seconds("agent.image.streamed")
        return self._rules.seconds("agent.image.engine")

    def keep(self, image: str, node: JsonObject) -> None:
        """Record that an image is on a node."""
        with self._lock:
            self._there.setdefault(node["metadata"]["uid"], set()).add(image)

    def forget(self, node: JsonObject) -> None:
        """Remove the records of a node that is gone."""
        with self._lock:
            self._there.pop(node["metadata"]["uid"], None)
