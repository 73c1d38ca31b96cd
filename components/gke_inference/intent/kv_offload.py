"""KV cache beyond the accelerator: what an engine keeps in memory, on local SSD and on a share.

vLLM 0.32.0 (v1/kv_offload/tiering): each full block that is computed is also stored in CPU memory,
and from there in all lower tiers. A block in a lower tier is read into CPU memory first. CPU memory
is a file in /dev/shm of the engine's pod, which is filled at the start. The lower tiers are folders
without a size limit, so the launcher deletes their oldest files.
"""

from collections.abc import Iterator

from gke_inference.catalogue.accelerators import Machine
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.settings import KvOffload
from gke_inference.intent.words import Task

FIELD = "settings.kv_offload"
ENGINE_GIB = 8
"""Main memory of an engine beside the tier: processes, and buffers while it loads. Assumed."""
SHARED_MEMORY_GIB_PER_DEVICE = 2
"""Shared memory by which an engine's processes communicate."""
MEMORY_SHARE = 0.7
"""Share of a machine's memory that a server requests; GKE's agents and DaemonSets use the rest."""
LOCAL_SSD_GIB = 375
"""Size of one local SSD (cloud.google.com/compute/docs/disks/local-ssd)."""
SHARED_SHARE = 0.9
"""Share of a Filestore or Lustre instance that KV cache may have: files are deleted some seconds
after a tier is full. Assumed."""
_DISK_SHARE = 0.75
"""Share of a node's local SSDs that a tier may have. GKE evicts pods when 10 % are left, images
are on the same disks, and files are deleted only some seconds after the tier is full. Assumed."""


def offload_problems(
    offload: KvOffload,
    rung: Rung,
    *,
    has_experts: bool,
    prefix_caching: bool,
    split: int | None,
    task: Task,
) -> Iterator[InputError]:
    """Yield why a rung cannot have the tiers, of a model that vLLM serves on it."""
    if task is not Task.GENERATE:
        yield InputError(FIELD, f"must not be set when task is {task}: no prefix is cached")
    if not prefix_caching:
        yield InputError(FIELD, "must not be set without prefix_caching: blocks are found by it")
    if rung.is_multi_host:
        rule = f"must not be set when {rung.label} spans {rung.hosts} hosts: memory is shared"
        yield InputError(FIELD, f"{rule} within one")
        return
    if split is not None and split != rung.devices:
        words = "experts" if has_experts else "several copies in a pod"
        owner = "each data-parallel rank" if has_experts else "each"
        rule = f"must not be set with {words}: {owner} would have tiers of its own"
        yield InputError(FIELD, rule)
    host = rung.machine
    yield from _sizes(offload, rung, host)


def _sizes(offload: KvOffload, rung: Rung, host: Machine) -> Iterator[InputError]:
    if host.ram_gib is not None:
        beside = ENGINE_GIB + SHARED_MEMORY_GIB_PER_DEVICE * rung.devices
        most = int(host.ram_gib * MEMORY_SHARE) - beside
        if offload.cpu_gib > most:
            rule = f"must be at most {max(0, most)} on {host.name}: {host.ram_gib} GiB of memory"
            rule = f"{rule}, of which {beside} are for the engine"
            yield InputError(f"{FIELD}.cpu_gib", rule, offload.cpu_gib)
    if offload.disk_gib is not None:
        most = int(host.local_ssds * LOCAL_SSD_GIB * _DISK_SHARE)
        if most == 0:
            rule = f"must not be set: {host.name} has no local SSD of its own"
            yield InputError(f"{FIELD}.disk_gib", rule, offload.disk_gib)
        elif offload.disk_gib > most:
            rule = f"must be at most {most} on {host.name}: {host.local_ssds} local SSDs"
            yield InputError(f"{FIELD}.disk_gib", rule, offload.disk_gib)
