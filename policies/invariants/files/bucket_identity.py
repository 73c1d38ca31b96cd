"""Pods that read a bucket have a service account of their own with access to it."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken, unknown
from policies.framework.reading import STACK_REFERENCE, at, section
from policies.framework.rule import Invariant
from policies.objects.fuse import fuse_volumes
from policies.objects.pods import PodOf
from policies.objects.world import World

_ANNOTATION = "iam.gke.io/gcp-service-account"
_BUCKET_ROLES = "gcp:storage/bucketIAM"


def _check(world: World) -> Iterator[Finding]:
    for pod in world.pods:
        if _reads(pod):
            yield from _findings(pod)


def _reads(pod: PodOf) -> bool:
    return bool(fuse_volumes(pod)) or any(
        word.startswith(("gs://", "--model=gs://"))
        for each in pod.containers
        for word in each.line.words
    )


def _findings(pod: PodOf) -> Iterator[Finding]:
    world, namespace = pod.world, pod.obj.namespace
    name = str(at(pod.spec, "serviceAccountName") or "default")
    field = pod.at("spec.serviceAccountName")
    if name == "default":
        yield broken(
            pod.obj,
            field,
            name,
            "reads a bucket as the namespace's default service account",
            "give it a service account of its own, with a role on the bucket",
        )
        return
    account = world.find("ServiceAccount", namespace, name)
    if account is not None and account.at("metadata", "annotations", _ANNOTATION):
        return
    if world.resources is None or any(map(_is_reference, world.resources)):
        yield unknown(
            pod.obj,
            field,
            name,
            "Kubernetes objects do not show which roles the account has on the bucket",
            f"bind principal://…/ns/{namespace}/sa/{name} to the bucket, or annotate {_ANNOTATION}",
        )
    elif not any(_binds(each, namespace, name) for each in world.resources):
        yield broken(
            pod.obj,
            field,
            name,
            "has no role on any bucket",
            "grant it access to the bucket that it reads",
        )


def _is_reference(resource: dict[str, object]) -> bool:
    """Return whether a resource references a platform, which grants access to its buckets."""
    return resource.get("type") == STACK_REFERENCE


def _binds(resource: dict[str, object], namespace: str, name: str) -> bool:
    member = str(section(resource, "inputs").get("member", ""))
    return str(resource.get("type", "")).startswith(_BUCKET_ROLES) and member.endswith(
        f"/subject/ns/{namespace}/sa/{name}"
    )


RULE = Invariant(
    name="bucket-identity",
    description="Pods that read buckets use a service account of their own with access to them.",
    reference="Workload Identity Federation for GKE; gcs-fuse-csi-driver",
    check=_check,
)
