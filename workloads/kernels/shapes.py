"""Inputs of attention: shapes, generations of chips, block sizes."""

from dataclasses import dataclass

LANES = 128
"""Block sizes are multiples of the width of a vector register."""

GENERATIONS = ("v5e", "v6e")
"""TPU generations that tables and the compiler's tests cover."""

HBM_GIB = {"v5e": 15.75, "v6e": 31.25}
"""Memory that a program can use, from the compiler's errors: less than the 16 and 32 GiB of the
data sheets."""

_DEVICE_KINDS = {"TPU v5 lite": "v5e", "TPU v5e": "v5e", "TPU v6 lite": "v6e", "TPU v6e": "v6e"}
"""Names of the chips in JAX: `jax.devices()[0].device_kind`."""


@dataclass(frozen=True, order=True)
class Blocks:
    """Tile sizes of the attention kernel, in positions."""

    q: int
    """Queries of one step of the grid."""
    kv: int
    """Keys and values copied to VMEM for one step of the grid."""
    compute: int
    """Keys and values multiplied at once; divides `kv`."""

    def __post_init__(self) -> None:
        for name in ("q", "kv", "compute"):
            value = getattr(self, name)
            if value <= 0 or value % LANES:
                raise ValueError(f"{name}: must be a positive multiple of {LANES}, got {value}")
        if self.kv % self.compute:
            raise ValueError(f"compute: must divide kv, {self.kv}, got {self.compute}")

    def __str__(self) -> str:
        return f"{self.q}/{self.kv}/{self.compute}"


DEFAULT_BLOCKS = Blocks(128, 128, 128)
"""Default block sizes of JAX's kernel."""


@dataclass(frozen=True, order=True)
class AttentionShape:
    """One call of the attention kernel on one chip."""

    heads: int
    kv_heads: int
    queries: int
    """Positions of one sequence."""
    keys: int
    head_size: int
    causal: bool
    dtype: str = "bfloat16"

    def __post_init__(self) -> None:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads: must be a multiple of {self.kv_heads}, got {self.heads}")
        if self.causal and self.queries > self.keys:
            raise ValueError(f"queries: must be at most {self.keys}, got {self.queries}")

    def __str__(self) -> str:
        heads = f"{self.heads}" if self.heads == self.kv_heads else f"{self.heads}:{self.kv_heads}"
        length = f"{self.queries}" if self.queries == self.keys else f"{self.queries}x{self.keys}"
        mask = "causal" if self.causal else "full"
        return f"{heads} heads, {length} x {self.head_size}, {mask}, {self.dtype}"

    @property
    def flops(self) -> float:
        """Operations of one sequence after the mask."""
        pairs = float(self.queries * self.keys)
        if self.causal:
            pairs -= self.queries * (self.queries - 1) / 2
        return 4.0 * self.heads * self.head_size * pairs


def generation_of(device_kind: str) -> str | None:
    """Return the generation for a JAX name such as `TPU v6 lite`, or None."""
    return _DEVICE_KINDS.get(device_kind)


def rounded(positions: int, block: int = LANES) -> int:
    """Return a number of positions, rounded up to whole blocks."""
    return -(-positions // block) * block
