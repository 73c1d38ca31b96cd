"""Stateful resources: losing one loses data or all workloads on it."""

from collections.abc import Collection, Mapping
from typing import Any, Final, cast

from gke_inference.catalogue.versions import api

STATEFUL: Final = frozenset(
    [
        "gcp:artifactregistry/repository:Repository",
        "gcp:compute/disk:Disk",
        "gcp:compute/futureReservation:FutureReservation",
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
"""Types of these resources. They include the resources that deliver models from git, whose deletion
deletes all models."""


_NAMES: Final = ("name", "instanceId", "instance_id", "repositoryId", "repository_id")
"""Inputs with the name of a resource: Lustre instances and repositories have an ID."""


def name_in_cloud(inputs: Mapping[str, Any]) -> str:
    """Return the name of a resource in the cloud or cluster, empty if it is not known.

    Args:
        inputs: Inputs of the resource, in camelCase or snake_case.
    """
    metadata: Any = inputs.get("metadata")
    inner = cast("dict[str, Any]", metadata if isinstance(metadata, Mapping) else {})
    names = [inputs.get(key) for key in _NAMES]
    return next((each for each in (*names, inner.get("name")) if isinstance(each, str)), "")


def may_be_lost(allowed: Collection[str], *names: str) -> bool:
    """Return whether a stack allows the replacement or deletion of a resource.

    Args:
        allowed: `allow_replace` of the stack.
        names: Names of the resource, in the cloud and in the program.
    """
    return not set(allowed).isdisjoint(names)
