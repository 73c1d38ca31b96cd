"""The GKE version that a region needs, and the version that it requests.

A cluster is created with a minor version, which GKE resolves to the channel's newest patch: the
oldest version with all required features may no longer be in any channel.
"""

from collections.abc import Iterator

from gke_inference.catalogue.versions import channel, gke_minimum, minor_of, version_key
from infra.plan.resolve import RegionPlan
from infra.plan.served import ServedModel
from infra.plan.storage import has_tier_on, is_on
from infra.stack import AdapterPlace, ClusterMode, Form, Region, SharedPlace

FROM_ZERO = "hpa-scale-to-zero"
"""The feature that `standby: 0` and `replicas.min: 0` require."""


def needed(region: RegionPlan) -> tuple[str, str]:
    """Return the oldest GKE version with all features that a region uses, and what requires it."""
    by_feature = dict(_features(region))
    if not by_feature:
        return "", "nothing"
    least = max(by_feature, key=version_key)
    return least, by_feature[least]


def scales_from_zero(region: RegionPlan) -> str:
    """Return the first setting of a region that scales from zero, or ''."""
    least = gke_minimum(FROM_ZERO)
    return next((because for needs, because in _features(region) if needs == least), "")


def asked(region: RegionPlan) -> str:
    """Return the minimum version with which the cluster of a region is created.

    It is never older than the channel's default for new clusters: a cluster with held upgrades
    would stay on it until its end of support.
    """
    settings = region.settings
    if settings.version is not None:
        return settings.version
    usual = channel(settings.release_channel.value).default
    return minor_of(max(usual, needed(region)[0], key=version_key))


def known_limit(region: Region) -> str:
    """Return the newest GKE version that a region's clusters are known to reach."""
    return region.version or channel(region.release_channel.value).newest


def _features(region: RegionPlan) -> Iterator[tuple[str, str]]:
    """Yield (minimum GKE version, feature) for each feature that the region uses."""
    settings = region.settings
    is_standard = settings.mode is ClusterMode.STANDARD
    if region.serves_models:
        yield gke_minimum("inference-pool-crd"), "InferencePool"
        if region.is_exported:
            yield gke_minimum("multi-cluster-inference"), "gateway.front: internal"
        yield gke_minimum("fuse-metadata-prefetch"), "weights read ahead by GCS FUSE"
    by_class = any(each.settings.node_pools is None for each in region.used_capacity)
    if by_class and is_standard and settings.auto_provisioning_limits is None:
        yield (
            gke_minimum("compute-class-auto-creation-without-cluster-nap"),
            "compute classes that make node pools",
        )
    for served in region.served:
        yield from _of_model(served)
    if region.storage.fuse_profile is not None:
        yield gke_minimum("fuse-profiles"), "storage.fuse_profile"
    for name in region.idle_streams:
        yield gke_minimum(FROM_ZERO), f"workers.min: 0 of stream {name}"
    if region.has_idle_batches:
        yield gke_minimum(FROM_ZERO), "batches.workers.min: 0"
    for capacity in region.used_capacity:
        for rung in capacity.rungs.values():
            if least := rung.chip.gke_minimum.get(settings.mode.value):
                yield least, rung.accelerator
            if rung.network == "rdma":
                feature = "network-claims" if is_standard else "network-claims-autopilot"
                yield gke_minimum(feature), f"RDMA of {rung.accelerator}"


def _of_model(served: ServedModel) -> Iterator[tuple[str, str]]:
    if served.form is Form.DUAL_CONTAINER:
        yield gke_minimum("compute-class-dual-container"), f"{served.name} in two containers"
    if is_on(served.settings, AdapterPlace.LUSTRE):
        yield gke_minimum("lustre"), f"adapters of {served.name} on Managed Lustre"
    if has_tier_on(served.settings, SharedPlace.LUSTRE):
        yield gke_minimum("lustre"), f"KV cache of {served.name} on Managed Lustre"
    if served.form is Form.DRA:
        yield gke_minimum("device-claims"), f"{served.name} in form dra"
    if served.buffer:
        yield gke_minimum("capacity-buffers"), f"replicas.buffer of {served.name}"
    if served.is_from_zero:
        yield gke_minimum(FROM_ZERO), f"replicas.min: 0 of {served.name}"
    if served.form is Form.PAIRED and served.standby == 0:
        yield gke_minimum(FROM_ZERO), f"standby: 0 of {served.name}"
