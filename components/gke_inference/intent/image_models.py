"""Further image models of a server: each chip holds all of them, and a request selects one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.intent.readers import optional, positive
from gke_inference.sizing.memory import weights_gib

FIELD = "image_models"


class ImageModelArgs(TypedDict):
    """A further image model of a `ModelServer`."""

    parameters_billion: float
    """Parameters of the model, in billions."""
    weights: str
    """`gs://BUCKET/PATH` or `gs://BUCKET/PATH@VERSION`, in the bucket of the server's `weights`."""
    context_tokens: NotRequired[int]
    """Maximum length of a prompt, in tokens. Default: as for the first model."""
    sigmas: NotRequired[list[float]]
    """Noise level before each denoising step, as in `image_sigmas`. Default: evenly spaced."""
    steps: NotRequired[int]
    """Denoising steps for requests that set none. Default: the model's."""
    weight_bits: NotRequired[int]
    """Bits per parameter as served. Default: 16."""


@dataclass(frozen=True)
class ImageModel:
    """A further image model; the fields of `ImageModelArgs`."""

    parameters_billion: float
    weights: str
    context_tokens: int | None = None
    sigmas: tuple[float, ...] = ()
    steps: int | None = None
    weight_bits: float = 16

    @property
    def gib(self) -> float:
        """Size of the weights as served."""
        return weights_gib(self.parameters_billion, self.weight_bits)


def image_models_of(args: Mapping[str, Mapping[str, Any]] | None) -> dict[str, ImageModel]:
    """Return the models in arguments, by the name that clients use.

    Raises:
        InputError: A number is out of its range.
    """
    found: dict[str, ImageModel] = {}
    for name, given in (args or {}).items():
        try:
            found[name] = ImageModel(
                context_tokens=optional(given, "context_tokens", 1, 10_000_000),
                parameters_billion=positive(given, "parameters_billion"),
                sigmas=tuple(map(float, given.get("sigmas") or ())),
                steps=optional(given, "steps", 1, 100),
                weight_bits=positive(given, "weight_bits", 16),
                weights=str(given["weights"]),
            )
        except InputError as error:
            raise error.at(f"{FIELD}.{name}.{error.path}") from None
    return found


def model_problems(
    models: Mapping[str, ImageModel], task: str, weights: str, *, has_disk: bool
) -> Iterator[InputError]:
    """Yield why a server cannot have further models, except for memory and schedules.

    Args:
        models: The further models.
        task: Task of the server.
        weights: Weights of its first model.
        has_disk: Whether it reads them from a disk, whose root is the first model.
    """
    if not models:
        return
    if task != "image":
        yield InputError(FIELD, f"must not be set when task is {task}", Bare(", ".join(models)))
    if has_disk:
        rule = "must not be set with a disk of weights: its root is the first model"
        yield InputError(FIELD, rule, Bare(", ".join(models)))
    for name, model in models.items():
        if _bucket(model.weights) != _bucket(weights):
            rule = f"must be in the bucket of the first model ({weights})"
            yield InputError(f"{FIELD}.{name}.weights", rule, model.weights)


def _bucket(weights: str) -> str | None:
    """Return the bucket of a URI, or None for a path in the platform's bucket."""
    return weights.split("/")[2] if weights.startswith("gs://") else None
