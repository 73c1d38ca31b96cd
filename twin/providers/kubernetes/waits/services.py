"""Readiness of Services: unchanged endpoints for a while, none of which is starting.

Source: pulumi-kubernetes v4.32.0, provider/pkg/await/service.go.
"""

import time

from twin.providers.kubernetes.manifests.fields import entries, section
from twin.providers.kubernetes.waits.state import READY, Check, State, waiting
from twin.wire.kube import JsonObject, Kube, KubeError

_NO_PODS = (
    "Service does not target any Pods. Selected Pods may not be ready, or field '.spec.selector' "
    "may not match labels on any Pods"
)
_NO_ADDRESS = "Service was not allocated an IP address; does your cloud provider support this?"


def service_ready(settle_seconds: float) -> Check:
    """Return the check of one Service, which records since when its endpoints are unchanged.

    A Service without a selector, a headless one and an external name have no pods to wait for. The
    check does not wait for Endpoints without addresses, but it waits for addresses that are not
    ready. At the end of the wait, a Service passes if no endpoint is pending, even if its Endpoints
    were never seen.

    Args:
        settle_seconds: time for which Endpoints must be unchanged.
    """
    seen: str | None = None
    since = 0.0

    def check(obj: JsonObject, kube: Kube) -> State:
        nonlocal seen, since
        has_address = _has_address(obj)
        if not _has_pods(obj):
            return READY if has_address else waiting(_NO_ADDRESS)
        endpoints = _endpoints(obj, kube)
        version = str(section(endpoints, "metadata").get("resourceVersion") or "")
        if version != seen:
            seen, since = version, time.monotonic()
        settled = bool(endpoints) and time.monotonic() - since >= settle_seconds
        subsets = entries(endpoints, "subsets")
        is_pending = any(entries(subset, "notReadyAddresses") for subset in subsets)
        if has_address and settled and not is_pending:
            return READY
        has_pods = any(entries(subset, "addresses") for subset in subsets)
        message = "waiting for its endpoints to settle" if has_pods else _NO_PODS
        passes = has_address and not is_pending
        return State(False, message if has_address else _NO_ADDRESS, passes_late=passes)

    return check


def _has_pods(obj: JsonObject) -> bool:
    spec = section(obj, "spec")
    return bool(
        spec.get("selector")
        and spec.get("clusterIP") != "None"
        and spec.get("type") != "ExternalName"
    )


def _has_address(obj: JsonObject) -> bool:
    if section(obj, "spec").get("type") != "LoadBalancer":
        return True
    return bool(entries(obj, "status", "loadBalancer", "ingress"))


def _endpoints(obj: JsonObject, kube: Kube) -> JsonObject:
    metadata = obj["metadata"]
    try:
        return kube.get(f"/api/v1/namespaces/{metadata['namespace']}/endpoints/{metadata['name']}")
    except KubeError:
        return {}  # not written yet, or a busy server: look again
