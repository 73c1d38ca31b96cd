"""Versions of ConfigMaps and Secrets, by which a running pod learns that a file of it changed.

Reading each object again and again took a third of an idle twin's requests.
"""

import threading
from collections.abc import Iterable

from twin.cluster.base.informer import Informer
from twin.cluster.base.watches import Watches

KINDS = ("configmaps", "secrets")
Reference = tuple[str, str]
"""One of `KINDS`, and the name of an object."""


class ConfigVersions:
    """What one watch of each kind has seen last."""

    def __init__(self, watches: Watches) -> None:
        changed = threading.Event()  # nobody waits: pods look when the kubelet would
        self._seen = {kind: Informer(watches, f"/api/v1/{kind}", changed) for kind in KINDS}

    def start(self, stop: threading.Event) -> None:
        """Watch until `stop` is set."""
        for informer in self._seen.values():
            informer.start(stop)

    def of(self, namespace: str, references: Iterable[Reference]) -> tuple[str, ...] | None:
        """Return the version of each object, empty where it is not there.

        None until all objects have been listed: then nobody knows.
        """
        if not all(informer.synced.is_set() for informer in self._seen.values()):
            return None
        versions = {
            (kind, item["metadata"]["name"]): str(item["metadata"]["resourceVersion"])
            for kind, informer in self._seen.items()
            for item in informer.items()
            if item["metadata"]["namespace"] == namespace
        }
        return tuple(versions.get(reference, "") for reference in references)
