"""Waits for objects to become ready or to be deleted."""

import threading
import time
from collections.abc import Callable
from typing import Any

from twin.providers.kubernetes.manifests import naming
from twin.providers.kubernetes.manifests.errors import NotReady, ProviderError, describe
from twin.providers.kubernetes.manifests.fields import entries
from twin.providers.kubernetes.waits.state import Check
from twin.wire.kube import JsonObject, Kube, KubeError

READY_SECONDS = 600.0
"""Default time to wait for readiness, as in the official provider."""
GONE_SECONDS = 600.0
_TIMEOUT = "pulumi.com/timeoutSeconds"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0
_QUIET_SECONDS = 1.0  # a delete that is done in this time is not worth a message
_COLLECTOR = frozenset(["foregroundDeletion", "orphan"])

Tell = Callable[[str], None]


def limit_seconds(obj: JsonObject, custom: float, default: float) -> float:
    """Return the wait time: the resource's custom timeout, the annotation, or the default.

    The order is that of `TimeoutDuration` in pulumi-kubernetes v4.32.0, which ignores an annotation
    that is not an integer.

    Raises:
        ProviderError: the annotation is not a whole number of seconds.
    """
    text = naming.annotations(obj).get(_TIMEOUT)
    try:
        annotated = default if text is None else float(int(text))
    except ValueError as error:
        raise ProviderError(f"{_TIMEOUT}: must be whole seconds, got {text!r}") from error
    return custom or annotated


def until_ready(
    kube: Kube, live: JsonObject, check: Check, seconds: float, stop: threading.Event, tell: Tell
) -> JsonObject:
    """Return the object once it is ready.

    Raises:
        NotReady: the object will not become ready, was not ready in time, or the wait was canceled.
    """
    path, what = kube.path_of(live), describe(live)
    end, pause, told = time.monotonic() + seconds, _FIRST_PAUSE, ""
    while True:
        state = check(live, kube)
        if state.ready:
            return live
        if state.failed:
            raise NotReady(f"{what}: failed: {state.message}", live)
        is_over = stop.is_set() or time.monotonic() >= end
        if is_over and state.passes_late:
            return live
        if stop.is_set():
            raise NotReady(f"{what}: cancelled while waiting: {state.message}", live)
        if is_over:
            raise NotReady(f"{what}: not ready after {seconds:g} s: {state.message}", live)
        if state.message != told:
            told = state.message
            tell(told)
        stop.wait(min(pause, max(end - time.monotonic(), 0.0)))
        pause = min(pause * 1.6, _LONGEST_PAUSE)
        live = _again(kube, path, live)


def _again(kube: Kube, path: str, live: JsonObject) -> JsonObject:
    try:
        fresh = kube.get(path)
    except KubeError as error:
        if error.status == 404:
            raise NotReady(f"{describe(live)}: was deleted while waiting for it", live) from error
        if error.status in (0, 429, 500, 503):
            return live  # the API server restarts or is busy: look again
        raise NotReady(f"{describe(live)}: {error.message}", live) from error
    return {"apiVersion": live["apiVersion"], "kind": live["kind"], **fresh}


def until_gone(
    kube: Kube, live: JsonObject, seconds: float, stop: threading.Event, tell: Tell
) -> None:
    """Wait until the object is deleted, or another one has its name.

    Raises:
        NotReady: the object still exists after the wait; the message names what blocks it.
    """
    path, what, uid = kube.path_of(live), describe(live), live["metadata"].get("uid")
    start, pause, told = time.monotonic(), _FIRST_PAUSE, ""
    while True:
        try:
            live = {"apiVersion": live["apiVersion"], "kind": live["kind"], **kube.get(path)}
        except KubeError as error:
            if error.status == 404:
                return
            if error.status not in (0, 429, 500, 503):
                raise ProviderError(f"{what}: {error.message}") from error
        if live["metadata"].get("uid") != uid:
            return
        reason = why_held(live)
        waited = time.monotonic() - start
        if stop.is_set() or waited >= seconds:
            verdict = "cancelled" if stop.is_set() else f"still there after {seconds:g} s"
            raise NotReady(f"{what}: {verdict}: {reason}", live)
        if reason != told and waited > _QUIET_SECONDS:
            told = reason
            tell(reason)
        stop.wait(pause)
        pause = min(pause * 1.6, _LONGEST_PAUSE)


def why_held(live: JsonObject) -> str:
    """Return what blocks the deletion of an object."""
    conditions: list[dict[str, Any]] = entries(live, "status", "conditions")
    holding = [
        str(entry.get("message"))
        for entry in conditions
        if live.get("kind") == "Namespace" and entry.get("status") == "True"
    ]
    names = entries(live, "metadata", "finalizers")
    finalizers = [str(name) for name in names if name not in _COLLECTOR]
    if any(name in _COLLECTOR for name in names):
        holding.append("waiting for what it owns to be deleted")
    if finalizers:
        holding.append(f"finalizers {', '.join(finalizers)}")
    return "; ".join(holding) or "being deleted"
