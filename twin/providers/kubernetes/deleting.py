"""Deletion with the program's propagation policy, and the wait until the object is deleted."""

import threading
from collections.abc import Callable

from twin.providers.kubernetes.manifests import applying, naming
from twin.providers.kubernetes.manifests.errors import ProviderError, explain
from twin.providers.kubernetes.waits import loop
from twin.wire.kube import JsonObject, Kube, KubeError

_PROPAGATION = "pulumi.com/deletionPropagationPolicy"
_POLICIES = {"foreground": "Foreground", "background": "Background", "orphan": "Orphan"}
_SKIP = "pulumi.com/skipAwait"
_SKIPPED = frozenset(
    ["DaemonSet", "Deployment", "Job", "Namespace", "Pod", "ReplicationController", "StatefulSet"]
)
"""Kinds whose `skipAwait` also skips the wait for a deletion; the official provider allows it only
for these (`allowsSkipAwaitWithDelete`, pulumi-kubernetes v4.32.0)."""


def delete(
    kube: Kube,
    obj: JsonObject,
    *,
    custom_seconds: float,
    stop: threading.Event,
    tell: Callable[[str], None],
) -> None:
    """Delete an object and wait until it is deleted; succeed for a missing one.

    Args:
        kube: API server of the cluster.
        obj: object with identity and annotations.
        custom_seconds: the resource's own timeout in seconds, 0 for none.
        stop: event that ends the wait.
        tell: shows progress.

    Raises:
        ProviderError: the API server rejected the request.
        NotReady: the object still exists; the message names what blocks the deletion.
    """
    policy = propagation(obj)
    try:
        live = applying.read(kube, obj)
        if live is None:
            return
        kube.delete(kube.path_of(live), {"propagationPolicy": policy})
    except KubeError as error:
        if error.status == 404:
            return
        raise explain(error, obj) from error
    if naming.is_true(obj, _SKIP) and obj["kind"] in _SKIPPED:
        return
    seconds = loop.limit_seconds(obj, custom_seconds, loop.GONE_SECONDS)
    loop.until_gone(kube, live, seconds, stop, tell)


def propagation(obj: JsonObject) -> str:
    """Return the propagation policy of a deletion: dependents first, unless annotated.

    Raises:
        ProviderError: the annotation is not a valid policy.
    """
    wanted = str(naming.annotations(obj).get(_PROPAGATION) or "foreground")
    if wanted.lower() not in _POLICIES:
        raise ProviderError(
            f"{_PROPAGATION}: must be foreground, background or orphan, got {wanted!r}"
        )
    return _POLICIES[wanted.lower()]
