"""Webhooks of the JobSet operator, which default and validate sets of jobs and their pods.

Objects: sigs.k8s.io/jobset v0.12.0, config/components/webhook. The operator finds them by name and
writes its CA into them.
"""

from typing import Final

from gke_inference.base.job_sets import NAME_LABEL
from gke_inference.base.manifests import Manifest, labels_for, manifest
from gke_inference.operators.hooks import Target, hook

_PLURAL: Final = "jobsets"
_OF_SETS: Final = {
    "objectSelector": {"matchExpressions": [{"key": NAME_LABEL, "operator": "Exists"}]}
}
"""Upstream's selector: other pods never depend on this operator."""


def webhooks(namespace: str, service: str) -> dict[str, Manifest]:
    """Return the webhook configurations by role: `mutating` and `validating`.

    Args:
        namespace: Namespace of the operator.
        service: Name of the operator's Service.
    """
    target = Target(namespace, service)
    labels = labels_for("job-set-webhooks", "job-set-operator")
    return {
        "mutating": manifest(
            "mutating_webhooks",
            "jobset-mutating-webhook-configuration",
            labels=labels,
            webhooks=[
                hook(target, "mutate", "job_set", [_PLURAL], ["CREATE"]),
                _pod_hook(target, "mutate"),
            ],
        ),
        "validating": manifest(
            "validating_webhooks",
            "jobset-validating-webhook-configuration",
            labels=labels,
            webhooks=[
                hook(target, "validate", "job_set", [_PLURAL], ["CREATE", "UPDATE"]),
                _pod_hook(target, "validate"),
            ],
        ),
    }


def _pod_hook(target: Target, verb: str) -> Manifest:
    return hook(target, verb, "pod", ["pods"], ["CREATE"], selector=_OF_SETS)
