"""An interpreter of the image pipeline that has its packages loaded."""

from pathlib import Path

from tests.forks.warm import Warm
from twin.engines import image_pipeline
from twin.engines.image_pipeline import DIFFUSION

_QUICK = {
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
}
"""Programs of tiny models take longer to compile than to run."""


def environment() -> dict[str, str]:
    """Return the environment of programs with tiny models."""
    return image_pipeline.environment(_QUICK)


def _with_cache(folder: Path) -> dict[str, str]:
    """Return an environment in which a program reads what another one has compiled.

    JAX reads the variables while it is imported.
    """
    return {
        **environment(),
        "JAX_COMPILATION_CACHE_DIR": str(folder / "xla"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


WARM = Warm(
    DIFFUSION.python,
    _with_cache,
    "diffusion.server",
    "diffusion.worker",
    "diffusion.xla.ahead",
    "diffusion.xla.pipeline",
    "diffusion.xla.sdxl",
    "diffusion.xla.tiny",
    "diffusion.xla.tiny_sdxl",
    "diffusion.xla.training.train",
    "diffusion.xla.video.programs",
    "diffusion.xla.video.tiny",
)
