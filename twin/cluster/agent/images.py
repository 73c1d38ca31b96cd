"""How long a node takes to pull an image."""

import re
import threading

from twin.cluster.nodes.node_objects import STREAMING_LABEL
from twin.wire.kube import JsonObject
from twin.world.rules import Rules

_LARGE = re.compile(r"vllm|diffusion")
"""Images with an engine: gigabytes."""
_BOOT_DISK_LABEL = "cloud.google.com.node-restriction.kubernetes.io/gke-secondary-boot-disk"


class Images:
    """What has been pulled on which node."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._there: dict[str, set[str]] = {}
        """Images by the uid of the node they are on."""
        self._lock = threading.Lock()

    def pull_seconds(self, image: str, node: JsonObject) -> float:
        """Return the seconds of a pull on Google's clock; 0 where the image is there."""
        with self._lock:
            if image in self._there.get(node["metadata"]["uid"], ()):
                return 0.0
        labels: dict[str, str] = node["metadata"].get("labels", {})
        if any(label.startswith(_BOOT_DISK_LABEL) for label in labels):
            return self._rules.seconds("agent.image.boot-disk")
        if not _LARGE.search(image):
            return self._rules.seconds("agent.image.small")
        if labels.get(STREAMING_LABEL) == "true":
            return self._rules.seconds("agent.image.streamed")
        return self._rules.seconds("agent.image.engine")

    def keep(self, image: str, node: JsonObject) -> None:
        """Remember that an image is on a node."""
        with self._lock:
            self._there.setdefault(node["metadata"]["uid"], set()).add(image)

    def forget(self, node: JsonObject) -> None:
        """Forget a node that is gone."""
        with self._lock:
            self._there.pop(node["metadata"]["uid"], None)
