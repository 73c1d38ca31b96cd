"""Creation and update: server-side apply, its dry run, and retries.

Source: pulumi-kubernetes v4.32.0, `Creation` and `Update` in
provider/pkg/await/await.go.
"""

import copy
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from twin.providers.kubernetes.manifests.errors import ProviderError, describe, explain
from twin.providers.kubernetes.manifests.fields import Path
from twin.providers.kubernetes.manifests.managers import CREATOR, adopt, takes_over
from twin.providers.kubernetes.manifests.ownership import leave_ignored
from twin.wire.kube import JsonObject, Kube, KubeError
from twin.wire.property_values import UNKNOWN

MISSING_SECONDS = 31.0
"""Time that a creation waits for its kind or namespace: the official provider tries six times, 1,
2, 4, 8 and 16 s apart."""
DEFINED_SECONDS = 150.0
"""Time that a creation waits for a kind whose definition exists: on a busy machine the twin's API
server takes longer than GKE's until it serves a new kind."""
KIND_FLOOR_SECONDS = 5.0
"""Shortest wait of the twin for a kind that nobody defined, however fast its clock is."""
_SERVER_SECONDS = 30.0
_TRY_AGAIN_SECONDS = 0.5
_DEFINITION = "CustomResourceDefinition"


@dataclass(frozen=True)
class How:
    """The write settings of a provider instance."""

    manager: str
    """Field manager of the object."""
    force: bool = False
    """The provider's `enablePatchForce`: take over fields of other managers."""
    upsert: bool = False
    """The provider's `upsertExistingObjects`: a creation also applies to an existing object."""
    kind_seconds: float = MISSING_SECONDS
    """Time on the twin's clock that a creation waits for a kind that nobody defined."""


def placed(kube: Kube, obj: JsonObject) -> JsonObject:
    """Return an object with its effective namespace, or none if its kind is cluster-scoped.

    Raises:
        KubeError: reason `NoSuchKind` if the cluster does not serve the kind.
    """
    _, namespaced = kube.resource(obj["apiVersion"], obj["kind"])
    metadata = {key: value for key, value in obj["metadata"].items() if key != "namespace"}
    if namespaced:
        metadata["namespace"] = obj["metadata"].get("namespace") or "default"
    return {**obj, "metadata": metadata}


def read(kube: Kube, obj: JsonObject) -> JsonObject | None:
    """Return the live object, or None if it, its namespace or its kind does not exist."""
    try:
        return _get(kube, placed(kube, obj))
    except KubeError as error:
        if error.status == 404:
            return None
        raise


def create(
    kube: Kube, obj: JsonObject, how: How, stop: threading.Event, tell: Callable[[str], None]
) -> JsonObject:
    """Create an object and return it.

    Args:
        kube: API server of the cluster.
        obj: object to create.
        how: field manager, and whether to take over an existing object.
        stop: event that ends the wait for a kind or a namespace.
        tell: shows progress.

    Raises:
        ProviderError: the API server rejected the request, or the object already exists.
    """

    def attempt() -> JsonObject:
        target = placed(kube, obj)
        if not how.upsert:
            return _post(kube, target)
        force = takes_over(obj, None, is_enabled=how.force, is_preview=False)
        return kube.apply(target, manager=how.manager, force=force)

    def kind_seconds() -> float:
        return DEFINED_SECONDS if _is_defined(kube, obj) else how.kind_seconds

    return _patiently(attempt, obj, how.manager, stop, tell, kind_seconds)


def update(
    kube: Kube,
    obj: JsonObject,
    how: How,
    *,
    ignored: list[Path],
    stop: threading.Event,
    tell: Callable[[str], None],
) -> JsonObject:
    """Update an object and return it.

    Raises:
        ProviderError: the API server rejected the request, or the object does not exist.
    """

    def attempt() -> JsonObject:
        target = placed(kube, obj)
        live = _get(kube, target)
        if obj["kind"] == _DEFINITION:
            return _replace(kube, target, live, how.manager)
        live = adopt(kube, live, how.manager)
        target = leave_ignored(target, live, ignored, how.manager)
        force = takes_over(obj, live, is_enabled=how.force, is_preview=False)
        return kube.apply(target, manager=how.manager, force=force)

    return _patiently(attempt, obj, how.manager, stop, tell)


def dry_run(
    kube: Kube, obj: JsonObject, how: How, *, ignored: list[Path], created: bool
) -> JsonObject | None:
    """Return the result of a dry-run apply, or None if it cannot be determined yet.

    It cannot be determined before the kind or the namespace is created (then only the fields are
    checked, in the namespace `default`), or before an object with that name is replaced.

    Raises:
        ProviderError: the API server would reject the object.
    """
    try:
        target = placed(kube, obj)
        if created:
            return _dry_create(kube, target, how)
        live = _get(kube, target)
        if obj["kind"] == _DEFINITION:
            return _replace(kube, target, live, how.manager, dry_run=True)
        target = leave_ignored(target, live, ignored, how.manager)
        force = takes_over(obj, live, is_enabled=how.force, is_preview=True)
        return kube.apply(target, manager=how.manager, force=force, dry_run=True)
    except KubeError as error:
        if _is_missing_namespace(error):
            _check_fields(kube, obj)
            return None
        if error.reason == "AlreadyExists" or error.status in (0, 403, 404, 429, 503):
            return None  # still to be replaced, not there yet, not ours to see, or a busy server
        raise explain(error, obj, how.manager) from error


def preview_of(result: JsonObject, *, created: bool) -> JsonObject:
    """Return a dry run's object, with unknowns for values that only the real update determines."""
    preview = copy.deepcopy(result)
    preview.pop("status", None)
    metadata = preview["metadata"]
    for key in ("resourceVersion", *(("uid", "creationTimestamp") if created else ())):
        metadata[key] = UNKNOWN
    metadata.pop("generation", None)
    return preview


def _get(kube: Kube, target: JsonObject) -> JsonObject:
    live = kube.get(kube.path_of(target))
    return {"apiVersion": target["apiVersion"], "kind": target["kind"], **live}


def _replace(
    kube: Kube, obj: JsonObject, live: JsonObject, manager: str, *, dry_run: bool = False
) -> JsonObject:
    """Replace a definition as a whole, as the official provider does."""
    version = live["metadata"]["resourceVersion"]
    whole = {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}
    options = {"dryRun": "All"} if dry_run else {}
    return kube.put(kube.path_of(whole), whole, fieldManager=manager, **options)


def _post(kube: Kube, obj: JsonObject, *, dry_run: bool = False) -> JsonObject:
    collection = kube.path_of(obj["apiVersion"], obj["kind"], obj["metadata"].get("namespace"))
    options = {"dryRun": "All"} if dry_run else {}
    return kube.post(collection, obj, fieldValidation="Strict", fieldManager=CREATOR, **options)


def _dry_create(kube: Kube, obj: JsonObject, how: How) -> JsonObject:
    if not how.upsert:
        return _post(kube, obj, dry_run=True)
    try:
        return kube.apply(obj, manager=how.manager, force=True, dry_run=True)
    except KubeError as error:
        if error.status != 422 or "field is immutable" not in error.message:
            raise
    # an object with that name is being replaced: show the result for another name
    metadata = {**obj["metadata"], "name": f"{obj['metadata']['name']}-{secrets.token_hex(3)}"}
    return kube.apply({**obj, "metadata": metadata}, manager=how.manager, force=True, dry_run=True)


def _check_fields(kube: Kube, obj: JsonObject) -> None:
    """Check an object with a missing namespace as if it were in `default`."""
    moved = {**obj, "metadata": {**obj["metadata"], "namespace": "default"}}
    try:
        _post(kube, moved, dry_run=True)
    except KubeError as error:
        if error.status in (400, 422):
            raise explain(error, obj, CREATOR) from error


def _patiently(
    attempt: Callable[[], JsonObject],
    obj: JsonObject,
    manager: str,
    stop: threading.Event,
    tell: Callable[[str], None],
    kind_seconds: Callable[[], float] | None = None,
) -> JsonObject:
    """Call `attempt` until it succeeds or fails with an error that is not transient.

    `kind_seconds` returns how long to wait for the kind; None: neither for it nor for a namespace.
    """
    start = time.monotonic()
    while True:
        try:
            return attempt()
        except KubeError as error:
            limit, reason = _patience(error, obj, kind_seconds)
            if time.monotonic() - start > limit or stop.is_set():
                raise _provider_error(error, obj, manager) from error
            tell(reason)
        stop.wait(_TRY_AGAIN_SECONDS)


def _patience(
    error: KubeError, obj: JsonObject, kind_seconds: Callable[[], float] | None
) -> tuple[float, str]:
    """Return how long to wait after a failure, in seconds, and for what."""
    if kind_seconds is not None and error.reason == "NoSuchKind":
        kind = f"{obj['apiVersion']} {obj['kind']}"
        return kind_seconds(), f"waiting for the cluster to serve {kind}"
    if kind_seconds is not None and _is_missing_namespace(error):
        return MISSING_SECONDS, f"waiting for namespace {obj['metadata'].get('namespace')}"
    if error.status in (0, 429, 503):  # as the official client: a busy or restarting server
        return _SERVER_SECONDS, f"trying again: {error.message}"
    return 0.0, ""


def _provider_error(error: KubeError, obj: JsonObject, manager: str) -> ProviderError:
    if error.reason == "AlreadyExists":
        return ProviderError(
            f"{describe(obj)}: already exists. Import it, give it another name, or set "
            "upsert_existing_objects on the provider to take it over"
        )
    return explain(error, obj, manager)


def _is_defined(kube: Kube, obj: JsonObject) -> bool:
    """Return whether a definition of an object's kind exists, served or not."""
    group = str(obj["apiVersion"]).rpartition("/")[0]
    wanted = {"group": group, "kind": obj["kind"]}
    for each in kube.list("/apis/apiextensions.k8s.io/v1/customresourcedefinitions"):
        spec = each["spec"]
        if {"group": spec["group"], "kind": spec["names"]["kind"]} == wanted:
            return True
    return False


def _is_missing_namespace(error: KubeError) -> bool:
    return error.status == 404 and error.details.get("kind") == "namespaces"
