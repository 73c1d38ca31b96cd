"""Stacks of any size, to measure how preview time grows."""

import copy
from typing import Any

from infra.reading.load import KEY, PROJECT, STACKS, platform_of

_MOST_MODELS = 999


def stack_with_models(count: int, base: str = "local") -> dict[str, Any]:
    """Return the configuration of a stack with a number of identical models.

    Args:
        count: Models, 1 to 999.
        base: Stack whose regions and capacity it has, and whose first model it repeats.

    Raises:
        ValueError: The count is out of range.
    """
    if not 1 <= count <= _MOST_MODELS:
        raise ValueError(f"count must be 1 to {_MOST_MODELS}, got {count}")
    platform = copy.deepcopy(platform_of(STACKS / f"Pulumi.{base}.yaml"))
    model = next(iter(platform["models"].values()))
    adapters = model.pop("adapters", [])
    platform["models"] = {
        f"model-{number:03d}": {
            **copy.deepcopy(model),
            "adapters": [f"{adapter}-{number:03d}" for adapter in adapters],
        }
        for number in range(1, count + 1)
    }
    return {f"{PROJECT}:{KEY}": platform}
