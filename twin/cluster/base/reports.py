"""What controllers tell people: times as Kubernetes writes them, and events about pods."""

import time

from twin.wire.kube import JsonObject


def timestamp(epoch: float | None = None) -> str:
    """Return a time, in seconds since the epoch, as Kubernetes writes it; by itself the present."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))


def pod_event(pod: JsonObject, component: str, kind: str, reason: str, message: str) -> JsonObject:
    """Return an Event about a pod.

    Args:
        pod: with name, namespace and uid in its metadata.
        component: that reports it, such as `kubelet`.
        kind: `Normal` or `Warning`.
        reason: one word in camel case.
        message: for people; at most 1,024 characters are kept.
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
