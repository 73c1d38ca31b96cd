"""Settings of adapters, which stacks and model servers share."""

from typing import Final, Literal

from pydantic import Field

from gke_inference.settings import Settings

AdapterRank = Literal[1, 8, 16, 32, 64, 128, 256, 320, 512]
"""Ranks that vLLM has kernels for: `--max-lora-rank` is a choice, not any number."""
DEFAULT_RANK: Final = 16
"""vLLM's default of `--max-lora-rank`."""


class LiveAdapters(Settings):
    """LoRA adapters that you can add and remove while the model serves."""

    max_rank: AdapterRank = DEFAULT_RANK
    """Maximum rank of an adapter; accelerator memory is reserved for it."""
    slots: int = Field(default=8, ge=1, le=64)
    """Maximum number of different adapters in one batch; four times as many stay in main memory.
    For image models, the number of adapters that each chip keeps."""


class AdapterFolder(LiveAdapters):
    """A folder whose adapters are loaded and unloaded as they come and go."""

    source: str
    """`gs://BUCKET/PATH`, or with a claim the path in its volume. Each folder in it with a
    configuration and weights is an adapter."""
    claim: str | None = None
    """Volume claim with the folder, such as that of a `SharedFolder`. None by default: the folder
    is in a bucket."""
