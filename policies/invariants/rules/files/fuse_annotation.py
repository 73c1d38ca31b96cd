"""A pod with a Cloud Storage FUSE volume is annotated so that it gets the sidecar."""

from collections.abc import Iterator

from policies.invariants.finding import Finding, Invariant, broken
from policies.invariants.fuse import DRIVER, fuse_volumes
from policies.invariants.world import World

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


INVARIANT = Invariant(
    name="fuse-annotation",
    holds="Pods with Cloud Storage FUSE volumes are annotated gke-gcsfuse/volumes.",
    source="GoogleCloudPlatform/gcs-fuse-csi-driver",
    check=_check,
)
