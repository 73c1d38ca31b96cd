"""Whether an engine can start a model on some devices: weights, and KV cache for one long request.

vLLM sets its share of a device's memory aside, loads the weights, and gives what is left to the KV
cache; it refuses to start where that cannot hold one request of the model's longest length
(`check_enough_kv_cache_memory`). This is that arithmetic, per device.
"""

from dataclasses import dataclass

from planner.memory import GIB, KV_SHARE, UTILISATION, weights_gib


@dataclass(frozen=True)
class Layers:
    """What a model keeps of each token."""

    layers: int
    kv_heads: int
    head_size: int
    window_tokens: int = 0
    """Tokens that layers with a window keep; 0: none has one."""
    windowed: int = 0
    """Layers with a window."""
    latent: int = 0
    """Numbers that a layer of multi-head latent attention keeps instead, on every device."""


@dataclass(frozen=True)
class Room:
    """Memory of one device, in GiB."""

    usable: float
    weights: float
    beside: float
    """Activations, adapters and the engine itself, taken to be a share of the weights."""
    context: float
    """KV cache of one request of the longest length."""
    tokens: int
    """That the KV cache holds, in requests of the longest length."""

    @property
    def needed(self) -> float:
        """Weights, and the larger of what is beside them."""
        return self.weights + max(self.beside, self.context)

    @property
    def is_enough(self) -> bool:
        """Whether the engine starts."""
        return self.needed <= self.usable

    def __str__(self) -> str:
        parts = (
            f"{self.weights:.1f} weights + {max(self.beside, self.context):.1f} "
            f"({'one request' if self.context > self.beside else 'beside them'})"
        )
        sign = "<=" if self.is_enough else ">"
        return f"{parts} {sign} {self.usable:.1f} GiB a device"


def kv_cache_gib(
    tokens: int, kept: Layers, *, tensor: int = 1, stages: int = 1, bits: float = 16
) -> float:
    """Return the KV cache of one sequence on one device.

    Args:
        tokens: of the sequence.
        kept: of each token.
        tensor: devices that share the heads; a head is not split, so some may have copies.
        stages: pipeline stages that share the layers.
        bits: of a number in the cache.
    """
    heads = -(-kept.kv_heads // tensor)
    numbers = kept.latent or 2 * heads * kept.head_size
    whole = (kept.layers - kept.windowed) * tokens
    cut = kept.windowed * min(tokens, kept.window_tokens or tokens)
    return (whole + cut) * numbers * bits / 8 / stages / GIB


def room(
    *,
    parameters_billion: float,
    bits: float,
    context: int,
    kept: Layers | None,
    device_gib: float,
    tensor: int = 1,
    stages: int = 1,
    kv_bits: float = 16,
    share: float = UTILISATION,
) -> Room:
    """Return the memory of one device of a replica.

    Args:
        parameters_billion: all of the model's.
        bits: of a parameter as it is served.
        context: longest request, in tokens.
        kept: None: a model without a KV cache.
        device_gib: memory of one device.
        tensor: devices that one stage is split over.
        stages: pipeline stages.
        kv_bits: of a number in the KV cache.
        share: of the device that the engine takes.
    """
    usable = device_gib * share
    weights = weights_gib(parameters_billion, bits) / (tensor * stages)
    one = 0.0
    if kept is not None:
        one = kv_cache_gib(context, kept, tensor=tensor, stages=stages, bits=kv_bits)
    left = usable - weights
    return Room(
        usable=usable,
        weights=weights,
        beside=KV_SHARE * weights,
        context=one,
        tokens=int(left / one * context) if one and left > 0 else 0,
    )
