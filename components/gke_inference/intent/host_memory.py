"""Main memory of a node: what a model server needs of it beside its accelerators.

A volume in memory counts against the container that writes to it: the file cache against GKE's
sidecar, shared memory against the engine. A pod that needs more than its node has is killed while
it reads weights, and one that requests more is never scheduled.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor

from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.fuse import SIDECAR_GIB
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import Rung
from gke_inference.intent.intent import ServingIntent
from gke_inference.intent.kv_offload import ENGINE_GIB, MEMORY_SHARE, SHARED_MEMORY_GIB_PER_DEVICE

PREDICTION_ROOM_GIB = 1.0
"""Memory beside the weights of a predictive model, for the runtime and for activations (assumed).
Triton loads an instance on each GPU, or one on the processors of a node without GPUs, unless
config.pbtxt has others."""
OTHER_CACHE_GIB = 2
"""File cache of adapters in another bucket."""
_CACHE_SHARE = 1.2
"""Room in the file cache for tokenizer, configuration and some reserve."""
_TIERS_GIB = ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06), (float("inf"), 0.02))
_EVICTION_GIB = 0.1
_KERNEL_SHARE = 0.03
"""Memory of a machine that its firmware and kernel keep. Assumed: an e2-standard-4 with 16 GiB
reports 15.6."""
_AGENTS_GIB = 1.0
"""Requests of GKE's own pods on a node. Assumed."""


def room_gib(ram_gib: float) -> int:
    """Return the memory that the pod of a server can have on a machine, its sidecars included.

    GKE reserves a share that falls with the size of the machine, and 100 MiB for eviction
    (docs.cloud.google.com/kubernetes-engine/docs/concepts/plan-node-sizes).
    """
    left = capacity = ram_gib * (1 - _KERNEL_SHARE)
    reserved = _EVICTION_GIB
    for size, share in _TIERS_GIB:
        part = min(left, size)
        reserved += part * share
        left -= part
    return max(0, floor(capacity - reserved - _AGENTS_GIB))


def request_gib(ram_gib: float, cache_gib: int) -> int:
    """Return the memory that an engine requests on a machine, beside a file cache in memory."""
    usual = int(ram_gib * MEMORY_SHARE)
    return min(usual, room_gib(ram_gib) - cache_gib - SIDECAR_GIB) if cache_gib else usual


def weights_cache_gib(size_gib: float) -> int:
    """Return the size of the file cache for weights of a size."""
    return ceil(size_gib * _CACHE_SHARE) + 1


@dataclass(frozen=True)
class Need:
    """Memory that the pod of a server needs on its node, in GiB."""

    shared: int
    """Shared memory of the engine, with tiers of the KV cache."""
    cache: int
    """File cache of mounted weights, with GKE's sidecar; 0 if the engine streams them."""
    model: int = 0
    """The loaded model, on nodes without an accelerator that would hold it."""

    @property
    def gib(self) -> int:
        """All of it."""
        return ENGINE_GIB + self.model + self.shared + self.cache

    @property
    def parts(self) -> str:
        """Its parts, as a message names them."""
        cache = f", {self.cache} for the file cache" if self.cache else ""
        model = f", {self.model} for the model" if self.model else ""
        return f"{ENGINE_GIB} for the engine{model}, {self.shared} of shared memory{cache}"


def need(chips_per_node: int, cache_gib: int, tier_gib: int = 0, model_gib: float = 0) -> Need:
    """Return the memory that a server's pod needs.

    Args:
        chips_per_node: Chips of the node.
        cache_gib: File cache in memory for mounted weights; 0 if the engine streams them.
        tier_gib: Tier of the KV cache in main memory.
        model_gib: Loaded model, if main memory holds it.
    """
    shared = SHARED_MEMORY_GIB_PER_DEVICE * max(1, chips_per_node) + tier_gib
    return Need(shared, cache_gib + SIDECAR_GIB if cache_gib else 0, ceil(model_gib))


def mounts_weights(engine_name: str, kind: str) -> bool:
    """Return whether an engine reads weights from a mounted bucket on a kind of hardware."""
    return not engine(engine_name).hardware[kind].streamed


def host_memory(intent: ServingIntent, rung: Rung) -> tuple[Need, int] | None:
    """Return what a server's pod needs of a rung's main memory, and what it has, in GiB.

    None if the memory of the machine is not published.
    """
    ram = rung.machine.ram_gib
    if ram is None:
        return None
    offload = intent.settings.kv_offload
    tier = 0 if offload is None else offload.cpu_gib
    cache = _cache_gib(intent, rung.kind)
    if rung.chips:
        return need(rung.chips_per_node, cache, tier), room_gib(ram)
    # its container has a limit, beside the memory of the sidecar
    found = need(0, cache, tier, intent.gib + PREDICTION_ROOM_GIB)
    return found, request_gib(ram, cache) + found.cache


def memory_problems(intent: ServingIntent) -> Iterator[InputError]:
    """Yield the first rung whose machine has too little memory for a server's pod."""
    for place, rung in intent.rungs.items():
        both = host_memory(intent, rung)
        if both is None:
            continue
        found, room = both
        if found.gib > room:
            rule = f"must have {found.gib} GiB of memory for the pod on every rung ({found.parts})"
            yield InputError("rungs", f"{rule}; {place}: {rung.machine_type} has {room} for pods")
            return


def _cache_gib(intent: ServingIntent, kind: str) -> int:
    """Return the least file cache in memory: that of the weights, where they are mounted."""
    if not mounts_weights(intent.engine, kind) or intent.weights_bucket_claim is not None:
        return 0
    return weights_cache_gib(intent.bucket_gib) if intent.bucket_gib else 0
