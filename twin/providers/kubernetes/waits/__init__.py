"""Which kinds are waited for, and how."""

from twin.providers.kubernetes.manifests import naming
from twin.providers.kubernetes.waits import pods, simple, workloads
from twin.providers.kubernetes.waits.state import Check
from twin.wire.kube import JsonObject

_SKIP, _WAIT_FOR = "pulumi.com/skipAwait", "pulumi.com/waitFor"

# Services and Ingresses are not in it: nothing routes the twin's service addresses, so the
# endpoints that the official provider waits for need not exist.
_CHECKS: dict[tuple[str, str], Check] = {
    ("apps", "DaemonSet"): workloads.daemon_set_ready,
    ("apps", "Deployment"): workloads.deployment_ready,
    ("apps", "StatefulSet"): workloads.stateful_set_ready,
    ("batch", "Job"): workloads.job_ready,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): simple.definition_ready,
    ("", "Namespace"): simple.namespace_ready,
    ("", "PersistentVolumeClaim"): simple.claim_ready,
    ("", "Pod"): pods.pod_ready,
}


def check_of(obj: JsonObject) -> Check | None:
    """Return the readiness check of an object, or None where it is not waited for.

    Raises:
        ProviderError: its annotation `pulumi.com/waitFor` is unreadable.
    """
    if naming.is_true(obj, _SKIP):
        return None
    wanted = naming.annotations(obj).get(_WAIT_FOR)
    if wanted:
        return simple.expression_ready(str(wanted))
    group = str(obj["apiVersion"]).rpartition("/")[0]
    return _CHECKS.get((group, str(obj["kind"])))
