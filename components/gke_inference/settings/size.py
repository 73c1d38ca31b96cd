"""Size of a model."""

from pydantic import Field

from gke_inference.settings import Settings


class Size(Settings):
    """Size of a model's weights."""

    parameters_billion: float = Field(gt=0, le=10_000)
    """Parameters, in billions."""
    bits: int = Field(default=16, ge=4, le=32)
    """Bits per parameter as served: 16, or 8 or 4 if quantized."""
