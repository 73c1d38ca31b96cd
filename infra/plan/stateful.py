"""Resources that a stack cannot lose without losing data, or everything that runs on them."""

from collections.abc import Collection
from typing import Final

STATEFUL: Final = frozenset(
    [
        "gcp:artifactregistry/repository:Repository",
        "gcp:compute/disk:Disk",
        "gcp:container/cluster:Cluster",
        "gcp:container/nodePool:NodePool",
        "gcp:filestore/instance:Instance",
        "gcp:kms/cryptoKey:CryptoKey",
        "gcp:kms/keyRing:KeyRing",
        "gcp:lustre/instance:Instance",
        "gcp:storage/bucket:Bucket",
        "kubernetes:argoproj.io/v1alpha1:Application",
        "kubernetes:configsync.gke.io/v1beta1:RepoSync",
        "kubernetes:core/v1:PersistentVolumeClaim",
    ]
)
"""Types of these resources. What delivers models takes all of them with it when it goes."""


def may_be_lost(allowed: Collection[str], *names: str) -> bool:
    """Return whether a stack allows the loss of a resource.

    Args:
        allowed: `allow_replace` of the stack.
        names: Names of the resource, in the cloud and in the program.
    """
    return not set(allowed).isdisjoint(names)
