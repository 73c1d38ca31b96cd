"""Settings of accelerator nodes below Kubernetes: kubelet, kernel, image and local disks.

Sources: docs.cloud.google.com/kubernetes-engine/docs/how-to/node-system-config, the ComputeClass as
GKE serves it (`nodeSystemConfig`), and the reference of `gcloud container node-pools create
--system-config-from-file`, for the ranges.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join
from gke_inference.catalogue.rungs import Rung
from gke_inference.catalogue.sysctls import check_allowed, check_sysctls, in_class
from gke_inference.settings import Settings, Word

_HUGEPAGE_SHARE: Final = 0.6
"""Largest share of a node's memory in huge pages."""
_1GIB_FAMILIES: Final = ("a2", "a3", "g2")
"""Families of accelerator machines with huge pages of 1 GiB."""


class NodeImage(Word):
    """Operating systems of nodes, both with containerd."""

    COS = "cos"
    UBUNTU = "ubuntu"


class CpuManager(Word):
    """Policies of the kubelet's CPU manager."""

    NONE = "none"
    STATIC = "static"


class LocalSsdUse(Word):
    """Uses of the local SSDs that a machine type has."""

    EPHEMERAL = "ephemeral"
    BLOCK = "block"


class NodeSettings(Settings):
    """Settings of accelerator nodes, on Standard clusters.

    A change re-creates the nodes of node pools. A compute class uses it for new nodes.
    """

    image: NodeImage | None = None
    """Operating system: cos (Container-Optimized OS, the default) or ubuntu. Ubuntu is for GPUs in
    pools that GKE creates, without image streaming and `image_cache`."""
    cpu_manager_policy: CpuManager | None = None
    """CPU manager policy: static gives pods with whole CPUs cores of their own. By default,
    none."""
    cpu_cfs_quota: bool | None = None
    """Whether the kernel enforces CPU limits. By default, true."""
    pod_pids_limit: int | None = Field(default=None, ge=1024, le=4_194_303)
    """Maximum processes of a pod. By default, no limit but the node's."""
    allowed_unsafe_sysctls: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Kernel parameters that pods may set themselves, such as `net.*`: in the groups kernel.shm*,
    kernel.msg*, kernel.sem, fs.mqueue.* and net.*."""
    sysctls: dict[str, int | str] = Field(default_factory=dict[str, int | str])
    """Kernel parameters of the node and its pods, such as `net.core.somaxconn: 4096`."""
    hugepages_2mib: int | None = Field(default=None, ge=1)
    """Huge pages of 2 MiB. All huge pages are at most 60 % of the memory."""
    hugepages_1gib: int | None = Field(default=None, ge=1)
    """Huge pages of 1 GiB, on machines of the families a2, a3 and g2."""
    local_ssd_use: LocalSsdUse | None = None
    """Use of the local SSDs that the machine type has: ephemeral (the default) for pods' ephemeral
    storage, or block for raw disks, which only node pools of the stack have."""

    @property
    def hugepages_gib(self) -> float:
        """Size of all huge pages in GiB."""
        return (self.hugepages_2mib or 0) / 512 + (self.hugepages_1gib or 0)


def check_nodes(
    where: str,
    nodes: NodeSettings,
    rungs: Iterable[Rung],
    *,
    has_pools: bool,
    has_image_cache: bool,
) -> Iterator[InputError]:
    """Yield the problems of node settings.

    That TPU nodes run Container-Optimized OS only, that image streaming needs it, and that GKE's
    GPU driver does not start on Ubuntu with secure boot, is known from GKE's pages, not re-read.

    Args:
        where: Path of the settings in the user's input.
        nodes: The settings.
        rungs: Rungs of the nodes.
        has_pools: Whether the stack creates the node pools, whose nodes have secure boot.
        has_image_cache: Whether nodes attach a disk with container images.
    """
    yield from check_sysctls(join(where, "sysctls"), nodes.sysctls)
    yield from check_allowed(join(where, "allowed_unsafe_sysctls"), nodes.allowed_unsafe_sysctls)
    is_ubuntu = nodes.image is NodeImage.UBUNTU
    if is_ubuntu and has_pools:
        rule = "must be cos or unset with node_pools, whose nodes have secure boot"
        yield InputError(join(where, "image"), rule, nodes.image)
    elif is_ubuntu and has_image_cache:
        rule = "must be cos or unset with image_cache"
        yield InputError(join(where, "image"), rule, nodes.image)
    if nodes.local_ssd_use is LocalSsdUse.BLOCK and not has_pools:
        rule = "must be ephemeral or unset without node_pools: a compute class has no raw disks"
        yield InputError(join(where, "local_ssd_use"), rule, nodes.local_ssd_use)
    for rung in rungs:
        problem = next(_of_rung(where, nodes, rung), None)
        if problem is not None:
            yield problem
            return


def _of_rung(where: str, nodes: NodeSettings, rung: Rung) -> Iterator[InputError]:
    kind = rung.machine_type
    node = rung.machine
    if nodes.image is NodeImage.UBUNTU and rung.kind == "tpu":
        rule = f"must be cos or unset for {rung.accelerator}, whose nodes have no other"
        yield InputError(join(where, "image"), rule, nodes.image)
    if nodes.local_ssd_use is not None and not node.local_ssds:
        rule = f"must be unset for {kind}, which has no local SSDs"
        yield InputError(join(where, "local_ssd_use"), rule, nodes.local_ssd_use)
    if nodes.hugepages_1gib is not None and not kind.startswith(_1GIB_FAMILIES):
        rule = f"must be unset for {kind}: only {', '.join(_1GIB_FAMILIES)} have pages of 1 GiB"
        yield InputError(join(where, "hugepages_1gib"), rule, nodes.hugepages_1gib)
    if node.ram_gib is not None and nodes.hugepages_gib > _HUGEPAGE_SHARE * node.ram_gib:
        field = "hugepages_1gib" if nodes.hugepages_1gib is not None else "hugepages_2mib"
        most = f"{_HUGEPAGE_SHARE * node.ram_gib:g}"
        rule = f"must be at most {most} GiB with all huge pages, 60 % of the memory of {kind}"
        yield InputError(join(where, field), rule, getattr(nodes, field))


def class_defaults(nodes: NodeSettings | None) -> dict[str, Any]:
    """Return `priorityDefaults` of a compute class; empty without node settings."""
    if nodes is None:
        return {}
    pages = _given(hugepage_size2m=nodes.hugepages_2mib, hugepage_size1g=nodes.hugepages_1gib)
    kernel = _given(sysctls=in_class(nodes.sysctls) or None, hugepageConfig=pages or None)
    kubelet = _given(
        allowedUnsafeSysctls=list(nodes.allowed_unsafe_sysctls) or None,
        cpuCfsQuota=nodes.cpu_cfs_quota,
        cpuManagerPolicy=nodes.cpu_manager_policy and nodes.cpu_manager_policy.value,
        podPidsLimit=nodes.pod_pids_limit,
    )
    system = _given(kubeletConfig=kubelet or None, linuxNodeConfig=kernel or None)
    return {"nodeSystemConfig": system} if system else {}


def pool_blocks(nodes: NodeSettings | None) -> dict[str, Any]:
    """Return the blocks of a node pool's `node_config`; empty without node settings."""
    if nodes is None:
        return {}
    pages = _given(hugepage_size2m=nodes.hugepages_2mib, hugepage_size1g=nodes.hugepages_1gib)
    values = {name: str(value) for name, value in nodes.sysctls.items()}
    kernel = _given(sysctls=values or None, hugepages_config=pages or None)
    kubelet = _given(
        allowed_unsafe_sysctls=list(nodes.allowed_unsafe_sysctls) or None,
        cpu_cfs_quota=nodes.cpu_cfs_quota,
        cpu_manager_policy=nodes.cpu_manager_policy and nodes.cpu_manager_policy.value,
        pod_pids_limit=nodes.pod_pids_limit,
    )
    return _given(kubelet_config=kubelet or None, linux_node_config=kernel or None)


def _given(**values: object) -> dict[str, Any]:
    """Return the values that are set."""
    found: Mapping[str, object] = values
    return {name: value for name, value in found.items() if value is not None}
