"""How long a node takes to pull an image."""

import threading
from typing import Any

from twin.rules import Rules

JsonObject = dict[str, Any]
_BOOT_DISK_LABEL = "cloud.google.com.node-restriction.kubernetes.io/gke-secondary-boot-disk"
_STREAMING_LABEL = "cloud.google.com/gke-image-streaming"


class Images:
    """What has been pulled on which node."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._there: set[tuple[str, str]] = set()
        self._lock = threading.Lock()

    def pull_seconds(self, image: str, node: JsonObject) -> float:
        """Return the seconds of a pull on Google's clock; 0 where the image is there."""
        with self._lock:
            if (node["metadata"]["uid"], image) in self._there:
                return 0.0
        labels: dict[str, str] = node["metadata"].get("labels", {})
        if any(label.startswith(_BOOT_DISK_LABEL) for label in labels):
            return self._rules.seconds("agent.image.boot-disk")
        if "vllm" not in image:
            return self._rules.seconds("agent.image.small")
        if labels.get(_STREAMING_LABEL) == "true":
            return self._rules.seconds("agent.image.streamed")
        return self._rules.seconds("agent.image.engine")

    def keep(self, image: str, node: JsonObject) -> None:
        """Remember that an image is on a node."""
        with self._lock:
            self._there.add((node["metadata"]["uid"], image))
