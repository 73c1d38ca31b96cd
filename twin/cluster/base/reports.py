"""Reports of controllers: timestamps in Kubernetes format, and events about pods."""

import time

from twin.wire.kube import JsonObject


def timestamp(epoch: float | None = None) -> str:
    """Return a time in Kubernetes format, by default the current one."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))


def pod_event(pod: JsonObject, component: str, kind: str, reason: str, message: str) -> JsonObject:
    """Return an Event about a pod.

    Args:
        pod: object with name, namespace and uid in its metadata.
        component: reporting component, such as `kubelet`.
        kind: `Normal` or `Warning`.
        reason: one word in UpperCamelCase.
        message: human-readable text, cut to 1,024 characters.
    """
    meta, now = pod["metadata"], timestamp()
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{meta['name']}.", "namespace": meta["namespace"]},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
        },
        "type": kind,
        "reason": reason,
        "message": message[:1024],
        "source": {"component": component},
        "reportingComponent": component,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
