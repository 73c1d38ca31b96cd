"""Size of a step that vLLM chooses for an accelerator.

vLLM 0.29.0 and 0.32.0: `get_batch_defaults` of engine/arg_utils.py.
"""

from typing import NamedTuple


class DefaultBatch(NamedTuple):
    """Most tokens and requests of a step."""

    tokens: int
    """Tokens in an API server."""
    offline_tokens: int | None
    """Tokens of an engine without one (usage context `LLM_CLASS`). None: unknown."""
    requests: int


def default_batch(name: str, gib: float) -> DefaultBatch:
    """Return vLLM's defaults on an accelerator.

    Args:
        name: Name of the accelerator, in the catalog or on a node.
        gib: Memory of a device.
    """
    if name.startswith("tpu-v6e"):
        return DefaultBatch(1024, 2048, 256)
    if name.startswith(("tpu-v5e", "tpu-v5-lite")):
        return DefaultBatch(512, 1024, 256)
    is_tpu = name.startswith("tpu")
    if gib >= 160:
        return DefaultBatch(16_384, None if is_tpu else 16_384, 1024)
    if gib >= 70 and "a100" not in name:
        return DefaultBatch(8_192, None if is_tpu else 16_384, 1024)
    return DefaultBatch(2_048, None if is_tpu else 8_192, 256)
