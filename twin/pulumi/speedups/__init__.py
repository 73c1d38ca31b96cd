"""Patches of Pulumi's SDKs that save seconds per run, and the variable that disables them.

They are optional: `GKE_INFERENCE_NO_SPEEDUPS=1` runs every program on the unpatched SDKs.
"""

import os
from collections.abc import Mapping

from twin.pulumi.speedups.sdk_annotations import postpone_annotations
from twin.pulumi.speedups.sdk_parts import load_by_parts
from twin.pulumi.speedups.sdk_registration import register_quickly
from twin.pulumi.speedups.sdk_values import convert_quickly
from twin.pulumi.speedups.sdk_waits import leave_out_debugging, wait_in_batches

OFF = "GKE_INFERENCE_NO_SPEEDUPS"
"""The variable that disables them; empty and `0` leave them enabled."""


def are_on(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the SDKs are patched in a process with these variables."""
    return environment.get(OFF, "") in {"", "0"}


def speed_up_imports() -> None:
    """Load SDK packages that are imported from now on in parts, and their types on use."""
    if are_on():
        postpone_annotations()
        load_by_parts()


def speed_up_program(*, shows_debugging: bool) -> None:
    """Skip slow and unneeded parts of the SDK in this process's program.

    Args:
        shows_debugging: whether the engine prints debug messages of the SDK.
    """
    if not are_on():
        return
    wait_in_batches()
    register_quickly()
    convert_quickly()
    if not shows_debugging:
        leave_out_debugging()
