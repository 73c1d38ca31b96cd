"""Pods with Cloud Storage FUSE volumes have the annotation that injects the sidecar."""

from collections.abc import Iterator

from policies.framework.finding import Finding, broken
from policies.framework.rule import Invariant
from policies.objects.fuse import DRIVER, fuse_volumes
from policies.objects.world import World

_KEY = "gke-gcsfuse/volumes"


def _check(world: World) -> Iterator[Finding]:
    for pod in world.pods:
        names = list(fuse_volumes(pod))
        value = pod.template.annotations.get(_KEY)
        if names and str(value).lower() != "true":
            yield broken(
                pod.obj,
                pod.at(f"metadata.annotations[{_KEY}]"),
                value,
                f"volume {names[0]} is of {DRIVER}; without the annotation its sidecar is missing "
                "and the pod does not start",
                f'annotate the pods {_KEY}: "true"',
            )


RULE = Invariant(
    name="fuse-annotation",
    description="Pods with Cloud Storage FUSE volumes are annotated gke-gcsfuse/volumes.",
    reference="GoogleCloudPlatform/gcs-fuse-csi-driver",
    check=_check,
)
