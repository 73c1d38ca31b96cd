"""Nodes that GKE keeps ready and empty for replicas that a Deployment does not have yet."""

from gke_inference.base.manifests import Manifest, manifest
from gke_inference.catalogue.versions import api

ACTIVE = "buffer.x-k8s.io/active-capacity"
"""The strategy that keeps running nodes; GKE suspends no nodes with GPU or TPU."""


def capacity_buffer(deployment: str, namespace: str, replicas: int) -> Manifest:
    """Return a buffer with the name of its Deployment.

    Each unit is a pod of the Deployment's template that exists only in the memory of the cluster
    autoscaler, so nodes come from the compute class that the template selects.

    Args:
        deployment: Name of the Deployment.
        namespace: Namespace of the Deployment.
        replicas: Number of replicas for which nodes are kept, beyond those that run.
    """
    target = api("deployment")
    return manifest(
        "capacity_buffer",
        deployment,
        namespace,
        spec={
            "provisioningStrategy": ACTIVE,
            "replicas": replicas,
            "scalableRef": {"apiGroup": target.group, "kind": target.kind, "name": deployment},
        },
    )
