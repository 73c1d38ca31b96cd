"""Create and update: server-side apply, its dry run, and what is worth trying again."""

import copy
import threading
import time
from collections.abc import Callable

from twin.providers.kubernetes.manifests import naming
from twin.providers.kubernetes.manifests.errors import ProviderError, describe, explain
from twin.providers.kubernetes.manifests.fields import Path
from twin.providers.kubernetes.manifests.ownership import leave_ignored
from twin.wire.kube import JsonObject, Kube, KubeError
from twin.wire.rpc import UNKNOWN

MANAGER = "pulumi-kubernetes"
_FORCE = "pulumi.com/patchForce"
_FIELD_MANAGER = "pulumi.com/patchFieldManager"
KIND_SECONDS = 120.0
"""How long a kind that the cluster does not serve yet is waited for: GKE installs the definitions
of its own kinds some minutes after the cluster is there."""
_NAMESPACE_SECONDS = 15.0
_SERVER_SECONDS = 30.0
_TRY_AGAIN_SECONDS = 0.5


def field_manager(obj: JsonObject) -> str:
    """Return the field manager an object is applied with."""
    return str(naming.annotations(obj).get(_FIELD_MANAGER) or MANAGER)


def placed(kube: Kube, obj: JsonObject) -> JsonObject:
    """Return an object with the namespace it will lie in, and none where its kind has none.

    Raises:
        KubeError: reason `NoSuchKind` where the cluster does not serve the kind.
    """
    _, namespaced = kube.resource(obj["apiVersion"], obj["kind"])
    metadata = {key: value for key, value in obj["metadata"].items() if key != "namespace"}
    if namespaced:
        metadata["namespace"] = obj["metadata"].get("namespace") or "default"
    return {**obj, "metadata": metadata}


def read(kube: Kube, obj: JsonObject) -> JsonObject | None:
    """Return the live object, or None where it, its namespace or its kind is not there."""
    try:
        live = kube.get(kube.path_of(placed(kube, obj)))
    except KubeError as error:
        if error.status == 404:
            return None
        raise
    live.setdefault("apiVersion", obj["apiVersion"])
    live.setdefault("kind", obj["kind"])
    return live


def create(
    kube: Kube,
    obj: JsonObject,
    *,
    upsert: bool,
    force: bool,
    stop: threading.Event,
    tell: Callable[[str], None],
) -> JsonObject:
    """Create an object and return it.

    Args:
        kube: the cluster.
        obj: what to create.
        upsert: update an object that is there already, instead of refusing.
        force: take fields over from other managers.
        stop: ends the waiting for a kind or a namespace.
        tell: shows progress.

    Raises:
        ProviderError: the API server refused, or the object exists already.
    """

    def attempt() -> JsonObject:
        target = placed(kube, obj)
        if not upsert and read(kube, target) is not None:
            raise ProviderError(
                f"{describe(target)}: exists already. Import it, give it another name, or set "
                "upsert_existing_objects on the provider to take it over"
            )
        return _apply(kube, target, force=force)

    return _patiently(attempt, obj, stop, tell)


def update(
    kube: Kube,
    obj: JsonObject,
    *,
    ignored: list[Path],
    force: bool,
    stop: threading.Event,
    tell: Callable[[str], None],
) -> JsonObject:
    """Update an object, or create it again if somebody deleted it, and return it.

    Raises:
        ProviderError: the API server refused.
    """

    def attempt() -> JsonObject:
        target = placed(kube, obj)
        live = read(kube, target) if ignored else None
        if live is not None:
            target = leave_ignored(target, live, ignored, field_manager(obj))
        return _apply(kube, target, force=force)

    return _patiently(attempt, obj, stop, tell)


def dry_run(
    kube: Kube, obj: JsonObject, *, ignored: list[Path], created: bool, force: bool = False
) -> JsonObject | None:
    """Return what an apply would make of an object, or None where that cannot be said yet.

    It cannot while the kind or the namespace is still to be created (then at least the fields are
    checked, in the namespace `default`), or where an object of that name is still to be replaced.

    Raises:
        ProviderError: the API server would refuse.
    """
    try:
        target = placed(kube, obj)
        if created:
            return _dry_create(kube, target)
        live = read(kube, target) if ignored else None
        if live is not None:
            target = leave_ignored(target, live, ignored, field_manager(obj))
        return _apply(kube, target, force=force, dry_run=True)
    except KubeError as error:
        if _is_missing_namespace(error):
            _check_fields(kube, obj)
            return None
        if error.reason == "AlreadyExists" or error.status in (0, 403, 404, 429, 503):
            return None  # still to be replaced, not there yet, not ours to see, or a busy server
        raise explain(error, obj) from error


def preview_of(result: JsonObject, *, created: bool) -> JsonObject:
    """Return a dry run's object with unknowns where only the real update decides."""
    preview = copy.deepcopy(result)
    preview.pop("status", None)
    metadata = preview["metadata"]
    for key in ("resourceVersion", *(("uid", "creationTimestamp") if created else ())):
        metadata[key] = UNKNOWN
    metadata.pop("generation", None)
    return preview


def _apply(kube: Kube, obj: JsonObject, *, force: bool, dry_run: bool = False) -> JsonObject:
    return kube.apply(
        obj,
        manager=field_manager(obj),
        force=force or naming.is_true(obj, _FORCE),
        dry_run=dry_run,
    )


def _dry_create(kube: Kube, obj: JsonObject) -> JsonObject:
    metadata = obj["metadata"]
    collection = kube.path_of(obj["apiVersion"], obj["kind"], metadata.get("namespace"))
    return kube.post(
        collection,
        obj,
        dryRun="All",
        fieldValidation="Strict",
        fieldManager=field_manager(obj),
    )


def _check_fields(kube: Kube, obj: JsonObject) -> None:
    """Check an object whose namespace is missing as if it lay in `default`."""
    moved = {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}
    try:
        _dry_create(kube, moved)
    except KubeError as error:
        if error.status in (400, 422):
            raise explain(error, obj) from error


def _patiently(
    attempt: Callable[[], JsonObject],
    obj: JsonObject,
    stop: threading.Event,
    tell: Callable[[str], None],
) -> JsonObject:
    """Call `attempt` until it works or its failure is not one that passes by itself."""
    start = time.monotonic()
    while True:
        try:
            return attempt()
        except KubeError as error:
            limit, reason = _patience(error, obj)
            if time.monotonic() - start > limit or stop.is_set():
                raise explain(error, obj) from error
            tell(reason)
        stop.wait(_TRY_AGAIN_SECONDS)


def _patience(error: KubeError, obj: JsonObject) -> tuple[float, str]:
    """Return how long a failure is worth waiting for (seconds), and what is waited for."""
    if error.reason == "NoSuchKind":
        return KIND_SECONDS, f"waiting for the cluster to serve {obj['apiVersion']} {obj['kind']}"
    if _is_missing_namespace(error):
        return _NAMESPACE_SECONDS, f"waiting for namespace {obj['metadata'].get('namespace')}"
    if error.status in (0, 429, 503) or "failed calling webhook" in error.message:
        return _SERVER_SECONDS, f"trying again: {error.message}"
    return 0.0, ""


def _is_missing_namespace(error: KubeError) -> bool:
    return error.status == 404 and error.details.get("kind") == "namespaces"
