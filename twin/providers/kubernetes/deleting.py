"""Delete: with the propagation the program asked for, and until the object is gone."""

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
"""Kinds whose `skipAwait` also skips waiting for the end of a delete; the official provider keeps
that for these alone (`allowsSkipAwaitWithDelete`, pulumi-kubernetes v4.32.0)."""


def delete(
    kube: Kube,
    obj: JsonObject,
    *,
    custom_seconds: float,
    stop: threading.Event,
    tell: Callable[[str], None],
) -> None:
    """Delete an object and wait until it is gone; one that is gone already is success.

    Args:
        kube: the cluster.
        obj: with identity and annotations.
        custom_seconds: the resource's own time-out, 0 for none.
        stop: ends the wait.
        tell: shows progress.

    Raises:
        ProviderError: the API server refused.
        NotReady: the object is still there; says what holds it.
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
    """Return the propagation policy of a delete: dependents go first, unless annotated.

    Raises:
        ProviderError: the annotation names no policy.
    """
    wanted = str(naming.annotations(obj).get(_PROPAGATION) or "foreground")
    if wanted.lower() not in _POLICIES:
        raise ProviderError(
            f"{_PROPAGATION}: must be foreground, background or orphan, got {wanted!r}"
        )
    return _POLICIES[wanted.lower()]
