"""The maximum number of accelerator chips that the pods of a namespace may request."""

from gke_inference.base.inputs import whole
from gke_inference.base.manifests import Manifest, labels_for, manifest

_MOST_CHIPS = 100_000
_RESOURCES = {"gpu_chips": "requests.nvidia.com/gpu", "tpu_chips": "requests.google.com/tpu"}


def chip_quota(name: str, namespace: str, args: object) -> Manifest:
    """Return a ResourceQuota. For extended resources, only requests can be limited.

    kubernetes.io/docs/concepts/policy/resource-quotas, "Resource quota for extended resources".

    Args:
        name: Name of the object.
        namespace: Namespace of the object.
        args: Arguments with `gpu_chips` and `tpu_chips`; a missing one is 0.

    Raises:
        pulumi.InputPropertyError: A number is invalid.
    """
    hard = {
        resource: str(whole(args, field, 0, least=0, most=_MOST_CHIPS))
        for field, resource in _RESOURCES.items()
    }
    return manifest(
        "resource_quota", name, namespace, labels=labels_for(name, "quota"), spec={"hard": hard}
    )
