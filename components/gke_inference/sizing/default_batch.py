"""Size of a step that vLLM chooses for an accelerator.

vLLM 0.29.0 and 0.32.0: `get_batch_defaults` of engine/arg_utils.py.
"""


def default_batch(name: str, gib: float) -> tuple[int, int]:
    """Return vLLM's defaults for an API server: (tokens, requests) of a step.

    Args:
        name: Name of the accelerator, in the catalog or on a node.
        gib: Memory of a device.
    """
    if name.startswith("tpu-v6e"):
        return 1024, 256
    if name.startswith(("tpu-v5e", "tpu-v5-lite")):
        return 512, 256
    if gib >= 160:
        return 16_384, 1024
    if gib >= 70 and "a100" not in name:
        return 8_192, 1024
    return 2_048, 256
