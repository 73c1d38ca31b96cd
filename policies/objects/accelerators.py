"""The accelerators that containers ask for, and Google's names of them."""

import re
from functools import cache

from gke_inference.catalogue.accelerators import accelerator, accelerator_names
from policies.objects.pods import Container

TPU = "google.com/tpu"
GPU = "nvidia.com/gpu"
RESOURCES = (TPU, GPU)


def resource_of(container: Container) -> str | None:
    """Return the accelerator resource that a container asks for."""
    return next((name for name in RESOURCES if container.amount(name)), None)


@cache
def by_gke_type() -> dict[str, str]:
    """Return the catalogue's name of an accelerator by Google's, such as `tpu-v6e-slice`."""
    return {accelerator(name).gke_type: name for name in accelerator_names()}


def chips_of(topology: str) -> int | None:
    """Return the chips of a topology such as `2x4`; None where it is none."""
    if not re.fullmatch(r"\d+(x\d+)*", topology):
        return None
    chips = 1
    for side in topology.split("x"):
        chips *= int(side)
    return chips
