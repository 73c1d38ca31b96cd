"""Readiness checks by kind.

Source: pulumi-kubernetes v4.32.0, the table `awaiters` in provider/pkg/await/awaiters.go.
It does not include Namespaces and definitions. It includes Ingresses, but the twin does not serve
them and does not wait for them (rule `kubernetes.await`).
"""

from twin.providers.kubernetes.manifests import naming
from twin.providers.kubernetes.waits import pods, services, simple, workloads
from twin.providers.kubernetes.waits.state import Check
from twin.wire.kube import JsonObject

_SKIP, _WAIT_FOR = "pulumi.com/skipAwait", "pulumi.com/waitFor"
_Kind = tuple[str, str]

_CHECKS: dict[_Kind, Check] = {
    ("apps", "DaemonSet"): workloads.daemon_set_ready,
    ("apps", "Deployment"): workloads.deployment_ready,
    ("apps", "StatefulSet"): workloads.stateful_set_ready,
    ("batch", "Job"): workloads.job_ready,
    ("", "PersistentVolume"): simple.volume_ready,
    ("", "Pod"): pods.pod_ready,
    ("", "ResourceQuota"): simple.quota_ready,
}
_LIMITS: dict[_Kind, float] = {
    ("", "PersistentVolume"): 300.0,
    ("", "PersistentVolumeClaim"): 300.0,
    ("", "ResourceQuota"): 60.0,
}
"""Seconds after which the official provider gives up, whatever the requested timeout."""


def check_of(obj: JsonObject, settle_seconds: float, *, is_update: bool = False) -> Check | None:
    """Return the readiness check of an object, or None if it has none.

    Args:
        obj: live object.
        settle_seconds: time for which a Service's endpoints must be unchanged.
        is_update: whether the object existed before.

    Raises:
        ProviderError: the annotation `pulumi.com/waitFor` is not valid.
    """
    if naming.is_true(obj, _SKIP):
        return None
    wanted = naming.annotations(obj).get(_WAIT_FOR)
    if wanted:
        return simple.expression_ready(str(wanted))
    match _kind(obj):
        case ("", "Service"):
            return services.service_ready(settle_seconds)
        case ("", "PersistentVolumeClaim"):
            return simple.claim_updated if is_update else simple.claim_created
        case kind:
            return _CHECKS.get(kind)


def limit_of(obj: JsonObject, seconds: float) -> float:
    """Return the requested wait time, limited to the object's maximum."""
    if naming.annotations(obj).get(_WAIT_FOR):
        return seconds
    return min(seconds, _LIMITS.get(_kind(obj), seconds))


def _kind(obj: JsonObject) -> _Kind:
    return str(obj["apiVersion"]).rpartition("/")[0], str(obj["kind"])
