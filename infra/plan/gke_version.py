"""Which GKE a region needs, and which it asks for.

A cluster is made with a minor version, which GKE reads as the newest patch of it that the channel
has: the oldest version with every feature of the stack may be in no channel any more.
"""

from collections.abc import Iterator

from gke_inference.catalogue.accelerators import accelerator
from gke_inference.catalogue.versions import channel, gke_minimum, minor_of, version_key
from infra.plan.resolve import RegionPlan
from infra.plan.served import ServedModel
from infra.stack import ClusterMode, Form

FROM_ZERO = "hpa-scale-to-zero"
"""The feature that `standby: 0` takes."""


def needed(region: RegionPlan) -> tuple[str, str]:
    """Return the oldest GKE that has all that a region uses, and what asks for it."""
    found = dict(_features(region))
    if not found:
        return "", "nothing"
    least = max(found, key=version_key)
    return least, found[least]


def asked(region: RegionPlan) -> str:
    """Return the version that the cluster of a region is made with at least.

    It is never older than what the channel gives to new clusters: a cluster that leaves its minor
    version alone would stay there until Google takes it away.
    """
    settings = region.settings
    if settings.version is not None:
        return settings.version
    usual = channel(settings.release_channel.value).default
    return minor_of(max(usual, needed(region)[0], key=version_key))


def known_limit(region: RegionPlan) -> str:
    """Return the newest GKE that the region's clusters are known to get."""
    settings = region.settings
    return settings.version or channel(settings.release_channel.value).newest


def _features(region: RegionPlan) -> Iterator[tuple[str, str]]:
    """Yield (oldest GKE, what needs it) of each feature that the region uses."""
    settings = region.settings
    is_standard = settings.mode is ClusterMode.STANDARD
    if region.has_gateway:
        yield gke_minimum("inference-pool-crd"), "InferencePool"
        yield gke_minimum("fuse-metadata-prefetch"), "weights read ahead by GCS FUSE"
    by_class = any(each.settings.node_pools is None for each in region.used_capacity)
    if by_class and is_standard and settings.auto_provisioning_limits is None:
        yield (
            gke_minimum("compute-class-auto-creation-without-cluster-nap"),
            "compute classes that make node pools",
        )
    for served in region.served:
        yield from _of_model(served)
    for name in region.idle_streams:
        yield gke_minimum(FROM_ZERO), f"workers.min: 0 of stream {name}"
    if region.has_idle_batches:
        yield gke_minimum(FROM_ZERO), "batches.workers.min: 0"
    for capacity in region.used_capacity:
        for rung in capacity.rungs.values():
            if least := accelerator(rung.accelerator).gke_minimum.get(settings.mode.value):
                yield least, rung.accelerator


def _of_model(served: ServedModel) -> Iterator[tuple[str, str]]:
    if served.form is Form.DUAL_CONTAINER:
        yield gke_minimum("compute-class-dual-container"), f"{served.name} in two containers"
    if served.form is Form.PAIRED and served.standby == 0:
        yield gke_minimum(FROM_ZERO), f"standby: 0 of {served.name}"
