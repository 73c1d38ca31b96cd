"""Resources that a stack cannot lose without losing data, or everything that runs on them."""

from collections.abc import Collection
from typing import Final

from gke_inference.catalogue.versions import api

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
        "kubernetes:core/v1:PersistentVolumeClaim",
        *(
            f"kubernetes:{kind.api_version}:{kind.kind}"
            for kind in (api("argo_application"), api("repo_sync"))
        ),
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
