"""Generation of images and videos: what such a model offers its clients."""

from pydantic import Field

from gke_inference.settings import Settings
from gke_inference.settings.fields import ImageSize, ModelName, Weights
from gke_inference.settings.size import Size


class FurtherModel(Settings):
    """An image model that the servers of another one also serve.

    It has the sizes, the queue and the step cache of that model, and no adapters.
    """

    weights: Weights
    """Weights of the model, in the same form and the same bucket as those of the first."""
    size: Size
    """Size of the weights. Each chip holds all models, unless they have `chips`."""
    chips: int | None = Field(default=None, ge=1, le=256)
    """Number of chips of each replica that hold this model and no other. Set it for every model of
    the server, or for none."""
    steps: int | None = Field(default=None, ge=1, le=100)
    """Denoising steps for requests that set none. By default, 4 for distilled models, 28 for other
    models of FLUX.1 and 20 for those of Stable Diffusion XL."""
    sigmas: tuple[float, ...] | None = Field(default=None, min_length=1, max_length=100)
    """Noise level before each step of a model that was distilled to a fixed schedule. By default,
    evenly spaced over the steps."""
    context: int | None = Field(default=None, ge=1, le=10_000_000)
    """Maximum length of a prompt, in tokens. By default, that of the first model."""


class ImageGeneration(Settings):
    """Settings of an image model. The engine compiles a program for each size."""

    sizes: tuple[ImageSize, ...] = Field(default=("1024x1024",), min_length=1, max_length=8)
    """Image sizes, width x height in pixels, in multiples of 16. The first is the default."""
    steps: int | None = Field(default=None, ge=1, le=100)
    """Denoising steps for requests that set none. By default, 4 for distilled models, 28 for other
    models of FLUX.1 and 20 for those of Stable Diffusion XL."""
    sigmas: tuple[float, ...] | None = Field(default=None, min_length=1, max_length=100)
    """Noise level before each step of a model that was distilled to a fixed schedule, descending,
    at most 1. Every request then has that many steps. By default, evenly spaced over the steps."""
    step_cache: float | None = Field(default=None, gt=0, lt=1)
    """First-block caching: largest relative change of the first block's output for which a step
    reuses the output of the other blocks from an earlier step. By default, every step computes all
    blocks."""
    models: dict[ModelName, FurtherModel] = Field(
        default_factory=dict[str, FurtherModel], max_length=8
    )
    """Further models that the servers also serve, by the name that requests use. Every chip holds
    all of them, unless they have `chips`. Switching between models takes no time, as all are in the
    memory of chips."""
    chips: int | None = Field(default=None, ge=1, le=256)
    """Number of chips of each replica that hold the first model and no other, each in a process of
    its own. With those of `models`, they must add up to the chips of each rung. Each model then
    waits in its share of `queue`, and the autoscaler follows each by its share of `queue_depth`. By
    default, every chip holds all models."""
    max_adapters: int | None = Field(default=None, ge=2, le=16)
    """Maximum number of adapters in one request (`adapter_names`). By default, a request names one
    adapter, in place of the model."""
    queue: int = Field(default=64, ge=1, le=10_000)
    """Maximum number of images that wait for one replica. Further requests are rejected with
    429."""

    def chips_by_model(self, first: str) -> dict[str, int]:
        """Return the chips of a replica that hold one model alone, by its name.

        None have any if each chip holds all models.

        Args:
            first: Name of the first model.
        """
        counts = {first: self.chips, **{name: each.chips for name, each in self.models.items()}}
        return {name: count for name, count in counts.items() if count is not None}


class Videos(Settings):
    """Settings of a video model. The engine compiles a program for each size and number of frames.

    A chip generates one video at a time.
    """

    sizes: tuple[ImageSize, ...] = Field(default=("832x480",), min_length=1, max_length=4)
    """Sizes, width x height in pixels, in multiples of 16. The first is the default."""
    frames: tuple[int, ...] = Field(default=(81,), min_length=1, max_length=4)
    """Numbers of frames, each a multiple of 4 plus 1. A second has 16. The first is the default."""
    steps: int | None = Field(default=None, ge=1, le=100)
    """Denoising steps for requests that set none. By default, 50."""
    max_adapters: int | None = Field(default=None, ge=2, le=16)
    """Maximum number of adapters in one request (`adapter_names`). By default, a request names one
    adapter, in place of the model."""
    queue: int = Field(default=8, ge=1, le=10_000)
    """Maximum number of videos that wait for one replica. Further requests are rejected with 429.
    Those that would wait longer than `timeout_seconds` end with 504."""
