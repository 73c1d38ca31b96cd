"""Synchronization of one namespace with its RepoSync: revisions, drift and errors."""

import hashlib
import logging
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twin.cluster.base.context import ClusterContext
from twin.cluster.base.informer import Informer
from twin.cluster.delivery.applying import PART_OF, apply, forget_refused, known_kinds
from twin.cluster.delivery.objects import (
    Declared,
    TreeError,
    key_of,
    projection,
    read_tree,
)
from twin.cluster.delivery.sources import Secret, Source, SourceError
from twin.cluster.delivery.status import status_of
from twin.wire.kube import JsonObject, KubeError

_LOG = logging.getLogger(__name__)
_SHORTEST_SECONDS = 1.0
_SETTLE_SECONDS = 1.0
"""Time before which a watch might not have the applied objects."""
_RETRY_SECONDS = 5.0
Key = tuple[str, str, str]


@dataclass
class _Synced:
    """The last application."""

    revision: str = ""
    """Last revision applied completely, without errors."""
    tried: str = ""
    """Last attempted revision."""
    errors: tuple[str, ...] = ()
    """Errors of the attempt."""
    at: float = 0.0
    declared: list[Declared] = field(default_factory=list[Declared])
    live: dict[Key, tuple[int, Any]] = field(default_factory=dict[Key, tuple[int, Any]])
    """Version and declared fields of each object, as the API server returned them."""


class Syncing:
    """One RepoSync."""

    def __init__(
        self,
        ctx: ClusterContext,
        namespace: str,
        kubectl: Path,
        wake: threading.Event,
        secret: Secret,
    ) -> None:
        """Start without state, like a reconciler that has just started.

        Args:
            ctx: The cluster.
            namespace: Namespace of the RepoSync.
            kubectl: Path of the program.
            wake: Event that is set when a managed object changes.
            secret: Returns the Secrets of the namespace.
        """
        self._ctx, self._namespace, self._kubectl = ctx, namespace, kubectl
        self._wake, self._secret = wake, secret
        self._stop = threading.Event()
        self._synced = _Synced()
        self._watched: dict[tuple[str, str], Informer] = {}
        self._looked = 0.0
        self._spec: Mapping[str, Any] = {}
        self._revision = ""
        self._source_errors: tuple[str, ...] = ()
        self._stalled = ""
        name = hashlib.sha256(namespace.encode()).hexdigest()[:12]
        self._folder = ctx.dir / "config-sync" / name

    def stop(self) -> None:
        """Stop watching; applied objects remain, as with Config Sync."""
        self._stop.set()

    def look(self, obj: JsonObject) -> JsonObject:
        """Sync if it is due, and return the status of the RepoSync."""
        spec: Mapping[str, Any] = obj.get("spec") or {}
        now = time.monotonic()
        period = max(_SHORTEST_SECONDS, self._ctx.rules.scaled("delivery.period"))
        if spec != self._spec or now - self._looked >= period:
            self._spec, self._looked = spec, now
            self._read(Source(spec, self._folder, self._secret))
        if (drifted := self.drift()) and now - self._synced.at >= _SETTLE_SECONDS:
            _LOG.info("%s drifted: %s", self._namespace, ", ".join(drifted))
            self._apply(self._synced.declared)
        return status_of(
            obj,
            revision=self._revision,
            synced=self._synced.revision,
            source_errors=self._source_errors,
            sync_errors=self._synced.errors,
            stalled=self._stalled,
        )

    def _read(self, source: Source) -> None:
        """Apply the source if it is due. A source that cannot be read changes nothing."""
        self._source_errors, self._stalled = (), ""
        try:
            self._revision = source.revision()
            if self._is_due():
                self._folder.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryDirectory(dir=self._folder) as folder:
                    place = source.fetch(self._revision, Path(folder) / "tree")
                    self._apply(read_tree(place, self._namespace))
        except SourceError as error:
            self._source_errors = (str(error),)
            self._stalled = str(error) if error.stalls else ""
        except TreeError as error:
            self._source_errors = (str(error),)

    def _is_due(self) -> bool:
        """Return whether to apply the tree: it is new, was rejected, or is an hour old."""
        synced = self._synced
        if self._revision != synced.tried:
            return True
        age = time.monotonic() - synced.at
        resync = max(_SHORTEST_SECONDS, self._ctx.rules.scaled("delivery.resync"))
        return age >= (min(resync, _RETRY_SECONDS) if synced.errors else resync)

    def drift(self) -> list[str]:
        """Return the objects that differ from the tree, as `KIND NAME`."""
        if not all(each.synced.is_set() for each in self._watched.values()):
            return []
        seen = {key_of(obj): obj for each in self._watched.values() for obj in each.items()}
        found: list[str] = []
        for each in self._synced.declared:
            live, known = seen.get(each.key), self._synced.live.get(each.key)
            if known is None:
                continue  # it was refused
            version, fields = known
            if live is None or (
                int(live["metadata"]["resourceVersion"]) > version
                and projection(each.obj, live) != fields
            ):
                found.append(f"{each.key[1]} {each.key[2]}")
        return found

    def _apply(self, declared: list[Declared]) -> None:
        before = known_kinds(self._ctx.kube, self._namespace)
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            applied = apply(
                self._kubectl, self._ctx.kubeconfig, self._namespace, declared, Path(folder)
            )
        if applied.errors:
            forget_refused(self._ctx.kube, self._namespace, before, applied)
        by_key = {key_of(obj): obj for obj in applied.objects}
        self._synced = _Synced(
            revision=self._synced.revision if applied.errors else self._revision,
            tried=self._revision,
            errors=applied.errors,
            at=time.monotonic(),
            declared=declared,
            live={
                each.key: (
                    int(live["metadata"]["resourceVersion"]),
                    projection(each.obj, live),
                )
                for each in declared
                if (live := by_key.get(each.key)) is not None
            },
        )
        for error in applied.errors:
            _LOG.warning("%s at %s: %s", self._namespace, self._revision, error)
        self._watch([each.obj for each in declared])

    def _watch(self, objects: list[JsonObject]) -> None:
        """Watch the kinds of the tree, so that drift is detected immediately."""
        for api_version, kind in {(obj["apiVersion"], obj["kind"]) for obj in objects}:
            if (api_version, kind) in self._watched:
                continue
            try:
                plural, _ = self._ctx.kube.resource(api_version, kind)
            except KubeError:
                continue  # a kind that the cluster does not have is an error of the sync
            root = "/api" if "/" not in api_version else "/apis"
            path = f"{root}/{api_version}/namespaces/{self._namespace}/{plural}"
            informer = Informer(self._ctx.watches, path, self._wake, label_selector=PART_OF)
            informer.start(self._stop)
            self._watched[api_version, kind] = informer
