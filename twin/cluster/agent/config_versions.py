"""Versions of ConfigMaps and Secrets, from which running pods detect changed files.

Polling each object caused a third of an idle twin's requests.
"""

import threading
from collections.abc import Iterable

from twin.cluster.base.informer import Informer
from twin.cluster.base.watches import Watches

KINDS = ("configmaps", "secrets")
Reference = tuple[str, str]
"""A kind from `KINDS`, and the name of an object."""


class ConfigVersions:
    """Latest versions, from one watch of each kind."""

    def __init__(self, watches: Watches) -> None:
        changed = threading.Event()  # never waited on: pods check at the kubelet's interval
        self._seen = {kind: Informer(watches, f"/api/v1/{kind}", changed) for kind in KINDS}

    def start(self, stop: threading.Event) -> None:
        """Watch until `stop` is set."""
        for informer in self._seen.values():
            informer.start(stop)

    def of(self, namespace: str, references: Iterable[Reference]) -> tuple[str, ...] | None:
        """Return the version of each object, empty for a missing one.

        Returns None until all objects have been listed.
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
