"""Patches of Pulumi's SDKs that save seconds of a run, and the switch that turns them off.

Nothing depends on them: `GKE_INFERENCE_NO_SPEEDUPS=1` runs every program on the SDKs as they are.
"""

import os

from twin.pulumi.speedups.sdk_parts import load_by_parts
from twin.pulumi.speedups.sdk_registration import register_quickly
from twin.pulumi.speedups.sdk_waits import leave_out_debugging, wait_in_batches

OFF = "GKE_INFERENCE_NO_SPEEDUPS"
"""The variable that turns them off; empty and `0` leave them on."""


def are_on() -> bool:
    """Return whether the SDKs are patched."""
    return os.environ.get(OFF, "") in {"", "0"}


def speed_up_imports() -> None:
    """Load the packages of SDKs that are imported from now on by parts."""
    if are_on():
        load_by_parts()


def speed_up_program(*, shows_debugging: bool) -> None:
    """Spare the program of this process what takes long in the SDK and nobody needs.

    Args:
        shows_debugging: whether the engine prints what the SDK writes for debugging.
    """
    if not are_on():
        return
    wait_in_batches()
    register_quickly()
    if not shows_debugging:
        leave_out_debugging()
