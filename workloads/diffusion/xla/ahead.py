"""Compiles all programs of a server ahead of time, for this machine or for an absent chip.

libtpu compiles for a described chip without a TPU or the weights, so compilation runs when the
image is built. A file is a serialized executable, which JAX loads if the same release runs.
"""

import importlib
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax

from ..config import Settings
from .compiled import file_of, lowered, store
from .family import Compilable, programs_of
from .formats import data_type
from .keys import Encoder, Key

DEVICE_KINDS = {"v5e": "TPU v5 lite", "v6e": "TPU v6 lite"}
"""JAX's name for each chip."""
_ABSENT = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
}


def keys(settings: Settings, encoders: Sequence[Encoder], ranks: list[int]) -> list[Key]:
    """Return every program that a server of images with these settings may need.

    Args:
        settings: Settings of the server.
        encoders: Text encoders of the model.
        ranks: Ranks of adapters; programs without an adapter are always included.
    """
    found: list[Key] = []
    ranks = settings.program_ranks(ranks)
    for batch in settings.batches:
        found += [Key(each.stage, batch) for each in encoders]
        for width, height in settings.sizes:
            reuses = settings.step_cache > 0
            found += [Key("step", batch, height, width, rank, reuses) for rank in (0, *ranks)]
            found.append(Key("decode", batch, height, width))
    if settings.family.edits:
        found += [Key("encode", 1, height, width) for width, height in settings.sizes]
    return found


def compile_all(settings: Settings, chip: str, out: Path, ranks: list[int]) -> list[Path]:
    """Compile all missing programs, report each on a line, and return the files.

    Raises:
        ValueError: The chip is unknown.
    """
    files: list[Path] = []
    for base in settings.bases.values():
        files += _compile(base, chip, out, ranks if base is settings else [])
    return files


def _compile(settings: Settings, chip: str, out: Path, ranks: list[int]) -> list[Path]:
    dtype, sharding, kind = target(chip)
    programs, wanted = _wanted(settings, dtype, None if chip == "cpu" else chip, ranks)
    files: list[Path] = []
    for key in wanted:
        file = file_of(out, programs, key, kind)
        files.append(file)
        if file.exists():
            continue
        begun = time.monotonic()
        store(file, lowered(programs, key, sharding).compile())
        seconds, size = time.monotonic() - begun, file.stat().st_size / 2**20
        sys.stdout.write(f"{key.name}: {seconds:.1f} s, {size:.2f} MiB\n")
    return files


def _wanted(
    settings: Settings, dtype: Any, generation: str | None, ranks: list[int]
) -> tuple[Compilable, list[Key]]:
    if settings.family.is_video:
        video = importlib.import_module(".video.programs", __package__)  # which imports this folder
        return video.WanPrograms(settings, dtype, generation), video.keys(
            settings, settings.program_ranks(ranks)
        )
    programs = programs_of(settings, dtype, generation)
    return programs, keys(settings, programs.encoders, ranks)


def target(chip: str) -> tuple[Any, Any, str]:
    """Return the number format of a chip, its sharding, and JAX's name for it.

    Raises:
        ValueError: The chip is unknown.
    """
    if chip == "cpu":
        jax.config.update("jax_platforms", "cpu")
        return data_type(), None, jax.devices()[0].device_kind
    if chip not in DEVICE_KINDS:
        known = ", ".join(sorted((*DEVICE_KINDS, "cpu")))
        raise ValueError(f"chip: must be one of {known}, got {chip!r}")
    from jax.experimental import topologies  # noqa: PLC0415 - loads libtpu

    os.environ.update({**_ABSENT, "TPU_ACCELERATOR_TYPE": f"{chip}-1"})
    jax.config.update("jax_platforms", "cpu")
    described = topologies.get_topology_desc(
        platform="tpu", topology_name=f"{chip}:1x1", chips_per_host_bounds=(1, 1, 1)
    )
    device = described.devices[0]
    return jax.numpy.bfloat16, jax.sharding.SingleDeviceSharding(device), device.device_kind
