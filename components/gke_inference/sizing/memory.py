"""The single calculation of accelerator memory: whether an engine can start a model on devices.

All sizes are in GiB of one device, as an engine sees it: a chip, or half of a TPU7x. vLLM takes its
share of a device, loads the weights, runs its largest step once, and uses the rest for the KV
cache. It refuses to start if the KV cache cannot hold one request of the maximum length
(`check_enough_kv_cache_memory`). Stack rules, the model server component, preflight, planner and
invariants all use this module.
"""

import math
from dataclasses import dataclass, replace
from typing import Protocol

from gke_inference.catalogue.accelerators import accelerator
from gke_inference.settings.size import Size
from gke_inference.sizing.architectures import find_model
from gke_inference.sizing.shapes import ModelShape, shape

GIB = 2**30

RUNTIME_MEMORY_GB = {"gpu": 1.5, "tpu": 1.0, "cpu": 0.5}
"""Activations, graphs and runtime per chip, within the memory that the engine may use."""

SHARE_BESIDE = 0.15
"""Minimum room next to the weights, as a share of them, for adapters and the KV cache of more than
one request. The only requirement if a model's layers are not known."""

UTILISATION = 0.9
"""Share of accelerator memory that the engine may use, vLLM's default."""

STEP_TOKENS = 8192
"""Maximum tokens per step, as vLLM's `--max-num-batched-tokens` on large accelerators."""

_LIVE_TENSORS = 8
"""Tensors of the hidden size, 16 bits, that a step keeps for each of its tokens. Assumed."""

_LIVE_EXPERT_TENSORS = 8
"""Such tensors for each token and each expert that it is sent to. Derived from one measurement:
vLLM 0.26.0 used 1.9 GiB beyond the rest for Qwen3-30B-A3B on one H100 (docs/benchmarks.md)."""


class Shaped(Protocol):
    """What `check_fit` needs of a rung, as in `gke_inference.catalogue.rungs.Rung`."""

    @property
    def accelerator(self) -> str:
        """Catalog name of the accelerator."""
        ...

    @property
    def chips(self) -> int:
        """Chips of all hosts."""
        ...

    @property
    def devices(self) -> int:
        """Devices that the engine sees on all hosts."""
        ...

    @property
    def hosts(self) -> int:
        """Nodes per replica."""
        ...

    @property
    def kind(self) -> str:
        """`tpu` or `gpu`."""
        ...

    @property
    def topology(self) -> str | None:
        """Topology of a TPU slice."""
        ...


@dataclass(frozen=True)
class Loaded:
    """A model as an engine loads it."""

    parameters_billion: float
    bits: float
    """Bits per parameter as served."""
    context: int = 0
    """Maximum request length, in tokens."""
    shape: ModelShape | None = None
    """Its layers, or None if not known."""
    kv_bits: float = 16
    """Bits per number in the KV cache."""


@dataclass(frozen=True)
class Room:
    """Memory of one device, in GiB."""

    usable: float
    """Memory that the engine may use."""
    weights: float
    reserve: float
    """Runtime, graphs and activations, or 0 if the model's layers are not known."""
    context: float
    """KV cache of one request of the maximum length."""
    tokens: int
    """KV cache capacity, in requests of the maximum length."""
    indivisible: str | None = None
    """Why the devices cannot share the model's heads."""

    @property
    def beside(self) -> float:
        """Memory required next to the weights."""
        return max(SHARE_BESIDE * self.weights, self.reserve + self.context)

    @property
    def needed(self) -> float:
        """Weights, and memory required next to them."""
        return self.weights + self.beside

    @property
    def left(self) -> float:
        """Memory left for the KV cache."""
        return self.usable - self.weights - self.reserve

    @property
    def problem(self) -> str | None:
        """Why the engine would not start, or None."""
        if self.indivisible is not None:
            return self.indivisible
        if self.needed <= self.usable:
            return None
        return (
            f"needs {self.needed:.1f} GiB on each device ({self.parts}), has {self.usable:.1f} GiB"
        )

    @property
    def parts(self) -> str:
        """Memory requirements, part by part."""
        if self.reserve + self.context > SHARE_BESIDE * self.weights:
            return (
                f"{self.weights:.1f} GiB of weights, {self.reserve:.1f} of runtime and "
                f"activations, {self.context:.1f} for one request"
            )
        return f"{self.weights:.1f} GiB of weights plus {SHARE_BESIDE:.0%}"

    def __str__(self) -> str:
        sign = "<=" if self.needed <= self.usable else ">"
        return f"{self.parts} {sign} {self.usable:.1f} GiB a device"


def weights_gib(parameters_billion: float, bits: float) -> float:
    """Return the size of a model's weights.

    Args:
        parameters_billion: All parameters, of a mixture of experts too.
        bits: Per parameter: 16 for bf16, 8 for fp8 or int8, 4.25 for mxfp4.

    Raises:
        ValueError: One of them is not positive.
    """
    if parameters_billion <= 0 or bits <= 0:
        raise ValueError(
            f"parameters and bits must be positive, got {parameters_billion} billion and {bits}"
        )
    return parameters_billion * 1e9 * bits / 8 / GIB


def size_gib(size: Size) -> float:
    """Return the size of a model's weights in GiB, as a stack gives it."""
    return weights_gib(size.parameters_billion, size.bits)


def _tables_gib(kept: ModelShape, bits: float) -> float:
    """Return what tables of tokens add to `weights_gib`: quantization leaves them in 16 bits.

    vLLM 0.26.0 quantizes linear layers and experts only (layers/quantization/fp8.py); measured on
    one H100 (docs/benchmarks.md). Assumed of the other engines.
    """
    return kept.tables_billion * 1e9 * max(0.0, 16 - bits) / 8 / GIB


def kv_token_bytes(kept: ModelShape, bits: float = 16) -> int:
    """Return the KV cache bytes of one token: a key and a value per layer and head.

    Latent attention counts as one head of half its vector (`sizing.shapes.shape`). Layers with a
    window count like the others; see `kv_cache_gib`.
    """
    return int(2 * kept.layers * kept.kv_heads * kept.head_dim * bits / 8)


def kv_copies(kept: ModelShape, tensor: float) -> float:
    """Return the number of copies of each KV head, since a head cannot be split over devices."""
    each = max(1.0, tensor)
    return math.ceil(kept.kv_heads / each) * each / kept.kv_heads


def kv_cache_gib(
    tokens: float, kept: ModelShape, *, tensor: int = 1, stages: int = 1, bits: float = 16
) -> float:
    """Return the KV cache size of one sequence on one device.

    Args:
        tokens: Length of the sequence. Layers with a window keep no more than that.
        kept: Shape of the model.
        tensor: Devices that share the heads.
        stages: Pipeline stages that share the layers.
        bits: Bits per number in the cache.
    """
    window, windowed = kept.window or (0, 0)
    share = min(1.0, windowed / kept.layers)
    counted = (1 - share) * tokens + share * min(tokens, window)
    on_device = kv_copies(kept, tensor) / tensor / stages
    return counted * kv_token_bytes(kept, bits) * on_device / GIB


def device_gib(word: str) -> float:
    """Return the memory of one device of an accelerator that a program may use."""
    chip = accelerator(word)
    return chip.program_gib / chip.devices_per_chip


def reserve_gib(word: str, kept: ModelShape, step_tokens: int = STEP_TOKENS) -> float:
    """Return the memory of one device for runtime, graphs and activations.

    Args:
        word: Accelerator, by its catalog name.
        kept: Shape of the model.
        step_tokens: Maximum tokens per step.
    """
    chip = accelerator(word)
    runtime = RUNTIME_MEMORY_GB[chip.kind] / chip.devices_per_chip
    live = _LIVE_TENSORS
    if kept.experts:
        live += _LIVE_EXPERT_TENSORS * kept.active_experts
    return (runtime * 1e9 + step_tokens * kept.hidden * 2 * live) / GIB


def room(
    model: Loaded, word: str, *, tensor: int, stages: int = 1, share: float = UTILISATION
) -> Room:
    """Return the memory budget of one device of a replica.

    Args:
        model: Loaded model.
        word: Accelerator, by its catalog name.
        tensor: Devices that one stage of a copy is split over.
        stages: Pipeline stages.
        share: Share of the device that the engine uses.
    """
    usable = device_gib(word) * share
    weights = weights_gib(model.parameters_billion, model.bits) / (tensor * stages)
    if model.shape is None:
        return Room(usable, weights, 0.0, 0.0, 0)
    kept = model.shape
    weights += _tables_gib(kept, model.bits) / (tensor * stages)
    reserve = reserve_gib(word, kept)
    one = kv_cache_gib(model.context, kept, tensor=tensor, stages=stages, bits=model.kv_bits)
    left = usable - weights - reserve
    tokens = int(left / one * model.context) if one and left > 0 else 0
    why = indivisible(kept, tensor, accelerator(word).kind)
    return Room(usable, weights, reserve, one, tokens, why)


def indivisible(kept: ModelShape, tensor: int, kind: str) -> str | None:
    """Return why devices cannot share a model's heads evenly, or None.

    vLLM assigns whole heads to devices, and copies KV heads if there are more devices. On TPU,
    heads of the KV cache are padded (tpu-inference).
    """
    if kept.heads % tensor:
        return f"has {kept.heads} attention heads, which {tensor} devices cannot share evenly"
    if kind == "gpu" and kept.kv_heads % tensor and tensor % kept.kv_heads:
        return f"has {kept.kv_heads} KV heads, which {tensor} devices cannot share evenly"
    return None


def split(rung: Shaped, tensor_parallel: int | None = None) -> tuple[int, int]:
    """Return the devices per pipeline stage and the number of stages of one copy of a model.

    Args:
        rung: Rung that it runs on. Each GPU host is a stage.
        tensor_parallel: Devices of a stage; None: all of it.
    """
    stages = 1 if rung.kind == "tpu" else rung.hosts
    return tensor_parallel or rung.devices // stages, stages


def loaded(
    weights: str,
    name: str,
    *,
    parameters_billion: float,
    bits: float,
    context: int,
    kv_cache_dtype: str | None = None,
) -> Loaded:
    """Return a stack's model as an engine loads it, with layers by file or model name.

    Args:
        weights: Path or `gs://` address of its files.
        name: Name of the model in the stack.
        parameters_billion: Parameters, as in the stack.
        bits: Bits per parameter, as in the stack.
        context: Maximum request length, in tokens.
        kv_cache_dtype: Number format of the KV cache; None: the model's.
    """
    known = find_model(weights, name)
    kept = shape(known) if known is not None and not known.is_diffusion else None
    kv_bits = 8 if "fp8" in (kv_cache_dtype or "") else 16
    return Loaded(parameters_billion, bits, context, kept, kv_bits)


def check_fit(rung: Shaped, model: Loaded, tensor_parallel: int | None = None) -> str | None:
    """Return why an engine cannot start a model on a rung, or `None` if it can.

    Args:
        rung: The rung.
        model: Loaded model.
        tensor_parallel: Devices of one copy; None: all of a replica.
    """
    tensor, stages = split(rung, tensor_parallel)
    found = room(model, rung.accelerator, tensor=tensor, stages=stages)
    if found.problem is None or found.indivisible is not None:
        return found.problem
    each = device_gib(rung.accelerator)
    reason = (
        f"needs {found.needed:.1f} GiB on each of {tensor * stages} devices ({found.parts}), "
        f"{rung.accelerator} {rung.topology or f'x{rung.chips}'} has {found.usable:.1f} GiB "
        f"({UTILISATION:.0%} of {each:g})"
    )
    larger = None if tensor_parallel else _smallest_shape(rung.accelerator, model)
    return f"{reason}; {larger} would hold it" if larger else reason


def check_expert_fit(
    rung: Shaped, model: Loaded, tensor_parallel: int, redundant: int
) -> str | None:
    """Return why an engine cannot start a model with expert parallelism, or `None` if it can.

    Every device holds its share of the experts; the other weights are sharded over
    `tensor_parallel` devices and copied to the others.

    Args:
        rung: The rung.
        model: Loaded model, a mixture whose experts are known.
        tensor_parallel: Devices of one copy of the other weights.
        redundant: Additional copies of experts.
    """
    part = expert_part(model, rung.devices, tensor_parallel, redundant)
    found = room(part, rung.accelerator, tensor=tensor_parallel)
    if found.problem is None or found.indivisible is not None:
        return found.problem
    return f"{found.problem}, with the experts on {rung.devices} devices"


def expert_part(model: Loaded, devices: int, tensor_parallel: int, redundant: int) -> Loaded:
    """Return what the devices of one copy hold with expert parallelism.

    Args:
        model: Loaded model. Without known experts, it is returned unchanged.
        devices: Devices of all hosts, over which the experts are spread.
        tensor_parallel: Devices of one copy of the other weights.
        redundant: Additional copies of experts.
    """
    kept = model.shape
    if kept is None or not kept.expert_billion:
        return model
    own = kept.expert_billion * (kept.experts + redundant) / devices
    others = kept.parameters_billion - kept.expert_billion * kept.experts
    return replace(model, parameters_billion=own * tensor_parallel + others)


def _smallest_shape(word: str, model: Loaded) -> str | None:
    """Return the smallest shape of the same chip that holds a model, on one host for GPUs."""
    chip = accelerator(word)
    shapes = (
        {entry.topology: entry.chips for entry in chip.slices}
        if chip.kind == "tpu"
        else {f"count {entry.chips}": entry.chips for entry in chip.machines}
    )
    enough = [
        (chips, name)
        for name, chips in shapes.items()
        if room(model, word, tensor=chips * chip.devices_per_chip).problem is None
    ]
    return min(enough)[1] if enough else None
