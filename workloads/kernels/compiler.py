"""The public TPU compiler on a machine without a TPU: acceptance and estimates of programs.

Only JAX's public interface is used: whether a program compiles, `memory_analysis`, `cost_analysis`
and the text of the compiled program. libtpu's own dumps are left alone (docs/adr/0011).
"""

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

from .shapes import GENERATIONS

_NO_TPU = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v6e-1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    # libtpu takes a lock file, and a second process that compiles would fail
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "true",
}
_VMEM = re.compile(r"Scoped allocation with size ([\d.]+)([KMG]) and limit ([\d.]+)([KMG])")
_HBM = re.compile(r"Used ([\d.]+)([KMG]) of ([\d.]+)([KMG]) hbm|available HBM \(([\d.]+)([KMG])\)")
_MIB = {"K": 2**-10, "M": 1.0, "G": 2.0**10}
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')


class RefusedError(ValueError):
    """The compiler refuses a program for a chip; the message names the missing memory."""

    def __init__(self, memory: str, needed_mib: float | None, limit_mib: float, what: str) -> None:
        self.memory = memory
        """`VMEM` or `HBM`."""
        self.needed_mib = needed_mib
        """Memory that the program needs; None if the compiler does not report it."""
        self.limit_mib = limit_mib
        needs = "more" if needed_mib is None else f"{needed_mib:.1f} MiB"
        super().__init__(f"{what}: needs {needs} of {memory}, the chip has {limit_mib:.1f} MiB")


@dataclass(frozen=True)
class Compiled:
    """Estimates of the compiler for an accepted program."""

    code_bytes: int
    temporary_bytes: int
    """HBM beside arguments and result."""
    bytes_moved: float
    """Bytes to and from HBM, counted by the compiler; for a kernel, by its author."""
    flops: float
    cycles: int
    """Estimated cycles of XLA's own operations; kernels are not counted."""
    seconds: float
    """Duration of the compilation."""


@cache
def device(generation: str) -> Any:
    """Return a described chip of a generation, for which programs compile but cannot run.

    Raises:
        ValueError: The generation is unknown.
    """
    if generation not in GENERATIONS:
        raise ValueError(f"generation: must be one of {', '.join(GENERATIONS)}, got {generation!r}")
    for name, value in _NO_TPU.items():
        os.environ.setdefault(name, value)
    described = topologies.get_topology_desc(
        platform="tpu", topology_name=f"{generation}:1x1", chips_per_host_bounds=(1, 1, 1)
    )
    return described.devices[0]


def array(generation: str, shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    """Return a described array on a chip of a generation."""
    return jax.ShapeDtypeStruct(shape, dtype, sharding=SingleDeviceSharding(device(generation)))


def compiled(
    function: Callable[..., Any], *arrays: Any, what: str = "the program"
) -> tuple[Compiled, Any]:
    """Compile a function for the chip that its described arrays are on.

    Args:
        function: Function of the arrays.
        arrays: Described arrays, from `array`.
        what: Name of the program in errors.

    Returns:
        The compiler's estimates, and JAX's compiled program.

    Raises:
        RefusedError: The program does not fit into the chip's memory.
    """
    begun = time.perf_counter()
    lowered = jax.jit(function).lower(*arrays)
    try:
        program = lowered.compile()
    except Exception as error:
        refused = _refused(str(error), what)
        if refused is None:
            raise
        raise refused from error
    seconds = time.perf_counter() - begun
    memory: Any = program.memory_analysis()
    cost: Any = program.cost_analysis()
    return Compiled(
        code_bytes=memory.generated_code_size_in_bytes,
        temporary_bytes=memory.temp_size_in_bytes,
        bytes_moved=float(cost.get("bytes accessed", 0.0)),
        flops=float(cost.get("flops", 0.0)),
        cycles=sum(int(found) for found in _CYCLES.findall(program.as_text() or "")),
        seconds=seconds,
    ), program


def versions() -> tuple[str, str]:
    """Return the releases of JAX and libtpu."""
    from importlib.metadata import version  # noqa: PLC0415 - only the tuner asks

    return version("jax"), version("libtpu")


def _refused(message: str, what: str) -> RefusedError | None:
    """Parse the compiler's two error messages about memory; None for other messages."""
    if found := _VMEM.search(message):
        size, size_unit, limit, limit_unit = found.groups()
        return RefusedError(
            "VMEM", float(size) * _MIB[size_unit], float(limit) * _MIB[limit_unit], what
        )
    if found := _HBM.search(message):
        used, used_unit, of, of_unit, available, unit = found.groups()
        if used is not None:
            return RefusedError(
                "HBM", float(used) * _MIB[used_unit], float(of) * _MIB[of_unit], what
            )
        return RefusedError("HBM", None, float(available) * _MIB[unit], what)
    return None
