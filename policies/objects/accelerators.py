"""Accelerators that containers request, and Google's names for them."""

import re

from policies.objects.pods import Container

TPU = "google.com/tpu"
GPU = "nvidia.com/gpu"
RESOURCES = (TPU, GPU)


def resource_of(container: Container) -> str | None:
    """Return the accelerator resource that a container requests."""
    return next((name for name in RESOURCES if container.amount(name)), None)


def chips_of(topology: str) -> int | None:
    """Return the number of chips in a topology such as `2x4`, or None if it is invalid."""
    if not re.fullmatch(r"\d+(x\d+)*", topology):
        return None
    chips = 1
    for side in topology.split("x"):
        chips *= int(side)
    return chips
