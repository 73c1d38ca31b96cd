"""The maximum number of accelerator chips that the pods of a namespace may request."""

from gke_inference.base.manifests import Manifest, labels_for, manifest


def chip_quota(name: str, namespace: str, *, gpu: int = 0, tpu: int = 0) -> Manifest:
    """Return a ResourceQuota. For extended resources, only requests can be limited.

    kubernetes.io/docs/concepts/policy/resource-quotas, "Resource quota for extended resources".

    Args:
        name: Name of the object.
        namespace: Namespace of the object.
        gpu: Number of GPUs that its pods may request in total.
        tpu: Number of TPU chips.
    """
    hard = {"requests.nvidia.com/gpu": str(gpu), "requests.google.com/tpu": str(tpu)}
    return manifest(
        "resource_quota", name, namespace, labels=labels_for(name, "quota"), spec={"hard": hard}
    )
