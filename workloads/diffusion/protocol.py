"""OpenAI's images API: validation of requests, and errors.

`POST /v1/images/generations` takes `prompt`, `model`, `n`, `size`, `response_format`, `stream`,
`partial_images`, `output_format` and `user` as OpenAI documents them. Beyond that: `seed`,
`num_inference_steps`, `guidance_scale`, and `adapter_names` with `adapter_weights`, which are those
of `set_adapters` in diffusers. Images are returned only as `b64_json`, because the
server does not store files. Edits are in edits.py, videos in videos.py.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import adapters
from .adapters import Weighted
from .config import SAFE_STEPS, Settings
from .families import FILL, KONTEXT
from .work import Edit

IMAGES = "/v1/images/generations"
EDITS = "/v1/images/edits"
VIDEOS = "/v1/videos/sync"
"""The route of vLLM-Omni."""
LONGEST_PROMPT = 32_000
_FORMATS = ("png", "jpeg")
ACCEPTED = frozenset(
    {
        "adapter_names",
        "adapter_weights",
        "guidance_scale",
        "model",
        "n",
        "num_inference_steps",
        "output_format",
        "partial_images",
        "prompt",
        "response_format",
        "seed",
        "size",
        "stream",
        "user",
    }
)
LARGEST_WEIGHT = 10.0
"""Largest factor of an adapter, in both directions (assumed: diffusers has no limit)."""
LARGEST_SEED = 2**32 - 1
_MOST_PREVIEWS = 3
"""Maximum of `partial_images` in OpenAI's API."""


class ApiError(Exception):
    """An error in OpenAI's format."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code
        self.retry_after = retry_after
        """Seconds to wait before a retry."""

    def body(self) -> dict[str, Any]:
        """Return the JSON body."""
        kind = "invalid_request_error" if self.status < 500 and self.status != 429 else "api_error"
        kind = "rate_limit_error" if self.status == 429 else kind
        fields = {"code": self.code, "message": str(self), "param": self.param, "type": kind}
        return {"error": fields}


@dataclass(frozen=True)
class ImageRequest:
    """A checked request for images, or for a video, which is one image of many frames."""

    prompt: str
    model: str
    base: str
    """The model itself, or that of the adapter."""
    adapters: tuple[Weighted, ...]
    count: int
    width: int
    height: int
    steps: int
    guidance: float
    seed: int
    """Seed of the first image; it increases by one for each further image."""
    format: str
    is_streamed: bool = False
    previews: int = 0
    """Number of previews of each image; 0 unless the request is streamed."""
    frames: int = 0
    """Frames of a video; 0 for images."""
    negative: str = ""
    """What the guidance of a video leads away from."""
    edit: Edit | None = None
    """The image to change; None to generate one."""


def parse(body: Any, settings: Settings, *, is_edit: bool = False) -> ImageRequest:
    """Return the request of a JSON body; for an edit, without its image.

    Raises:
        ApiError: The server does not support the request; 404 for an unknown model.
    """
    given = fields_of(body, ACCEPTED)
    model, chosen, base = model_of(given, settings)
    if base.family.is_video:
        message = f"The model {model!r} generates videos: use POST {VIDEOS}"
        raise ApiError(400, message, param="model")
    if base.family.edits in (FILL, KONTEXT) and not is_edit:
        message = f"The model {model!r} only edits images: use POST {EDITS}"
        raise ApiError(400, message, param="model")
    if text(given, "response_format", "b64_json") != "b64_json":
        raise ApiError(
            400, "response_format: must be b64_json: files are not kept", param="response_format"
        )
    width, height = size_of(text(given, "size", "auto"), settings)
    is_streamed = _is_set(given, "stream")
    return ImageRequest(
        adapters=chosen,
        base=base.model,
        count=whole(given, "n", 1, 1, settings.max_candidates),
        format=_one_of(text(given, "output_format", "png"), "output_format", _FORMATS),
        guidance=guidance_of(given, base),
        height=height,
        is_streamed=is_streamed,
        model=model,
        previews=_previews(given, is_streamed),
        prompt=prompt_of(given),
        seed=whole(given, "seed", secrets.randbelow(LARGEST_SEED), 0, LARGEST_SEED),
        steps=steps_of(given, base),
        width=width,
    )


def fields_of(body: Any, accepted: frozenset[str]) -> dict[str, Any]:
    """Return the fields of a JSON body.

    Raises:
        ApiError: It is no object, or has an unknown field.
    """
    if not isinstance(body, dict):
        raise ApiError(400, "the body must be a JSON object")
    given: dict[str, Any] = body
    for name, value in given.items():
        if name not in accepted and value is not None:
            raise ApiError(400, f"{name}: this server has no such field", param=name)
    return given


def model_of(
    given: dict[str, Any], settings: Settings
) -> tuple[str, tuple[Weighted, ...], Settings]:
    """Return the name of the model or adapter, the adapters, and the settings of their model.

    Raises:
        ApiError: The adapters are invalid; 404: there is no such model or adapter.
    """
    model = text(given, "model", settings.model)
    adapter = adapters.find(settings, model)
    base = settings if adapter is not None else settings.bases.get(model)
    if base is None:
        message = f"The model {model!r} does not exist"
        raise ApiError(404, message, param="model", code="model_not_found")
    names = _adapter_names(given, settings)
    if not names:
        return model, () if adapter is None else (Weighted(adapter),), base
    if model != settings.model:
        rule = f"must not be set unless model is {settings.model!r}, got {model!r}"
        raise ApiError(400, f"{_NAMES}: {rule}", param=_NAMES)
    weights = _adapter_weights(given, len(names))
    chosen = (_adapter(settings, name) for name in names)
    return model, tuple(map(Weighted, chosen, weights)), base


_NAMES, _WEIGHTS = "adapter_names", "adapter_weights"


def _adapter_names(given: dict[str, Any], settings: Settings) -> list[str]:
    """Return the names of the adapters of a request; none if it has no such field."""
    names = given.get(_NAMES)
    if names is None:
        if given.get(_WEIGHTS) is not None:
            message = f"{_WEIGHTS}: must not be set without {_NAMES}"
            raise ApiError(400, message, param=_WEIGHTS)
        return []
    found: list[Any] = names if isinstance(names, list) else []
    if not found or not all(isinstance(name, str) for name in found):
        message = f"{_NAMES}: must be a list of names, got {names!r}"
        raise ApiError(400, message, param=_NAMES)
    if len(set(found)) != len(found):
        raise ApiError(400, f"{_NAMES}: must be unique, got {found}", param=_NAMES)
    if len(found) > settings.max_adapters:
        message = f"{_NAMES}: must be at most {settings.max_adapters}, got {len(found)}"
        raise ApiError(400, message, param=_NAMES)
    return found


def _adapter_weights(given: dict[str, Any], count: int) -> list[float]:
    weights = given.get(_WEIGHTS)
    if weights is None:
        return [1.0] * count
    found: list[Any] = weights if isinstance(weights, list) else []
    if len(found) != count:
        message = f"{_WEIGHTS}: must be a list of {count}, as {_NAMES}, got {weights!r}"
        raise ApiError(400, message, param=_WEIGHTS)
    most = LARGEST_WEIGHT
    return [float(number({_WEIGHTS: each}, _WEIGHTS, 1.0, -most, most)) for each in found]


def _adapter(settings: Settings, name: str) -> adapters.Adapter:
    found = adapters.find(settings, name)
    if found is None:
        message = f"The adapter {name!r} does not exist"
        raise ApiError(404, message, param=_NAMES, code="model_not_found")
    return found


def answer(request: ImageRequest, images: list[str], created: int) -> dict[str, Any]:
    """Return the response body of a finished request; each image includes its seed."""
    seeds = (_seed(request.seed, at) for at in range(request.count))
    data = [{"b64_json": image, "seed": seed} for image, seed in zip(images, seeds, strict=True)]
    return {
        "created": created,
        "data": data,
        "model": request.model,
        "output_format": request.format,
        "size": f"{request.width}x{request.height}",
    }


def seeds(request: ImageRequest) -> list[int]:
    """Return the seed of each image of a request."""
    return [_seed(request.seed, at) for at in range(request.count)]


def model_list(settings: Settings) -> dict[str, Any]:
    """Return the body of `GET /v1/models`: the models, then the adapters of the first."""
    entries: list[dict[str, Any]] = []
    for name in (*settings.bases, *adapters.names(settings)):
        entry = {"created": 0, "id": name, "object": "model", "owned_by": "gke-inference"}
        entries.append(entry if name in settings.bases else {**entry, "parent": settings.model})
    return {"data": entries, "object": "list"}


def _seed(first: int, at: int) -> int:
    return (first + at) % (LARGEST_SEED + 1)


def steps_of(given: dict[str, Any], settings: Settings) -> int:
    """Return the number of denoising steps.

    Raises:
        ApiError: It is invalid.
    """
    name, count = "num_inference_steps", settings.default_steps
    steps = whole(given, name, count, 1, SAFE_STEPS)
    if settings.sigmas and steps != count:
        message = f"{name}: must be {count}, as the model was distilled to, got {steps}"
        raise ApiError(400, message, param=name)
    return steps


def guidance_of(given: dict[str, Any], settings: Settings) -> float:
    """Return the guidance.

    Raises:
        ApiError: It is invalid.
    """
    return number(given, "guidance_scale", settings.default_guidance, 0.0, settings.most_guidance)


def _previews(given: dict[str, Any], is_streamed: bool) -> int:
    name = "partial_images"
    previews = whole(given, name, 0, 0, _MOST_PREVIEWS)
    if previews and not is_streamed:
        raise ApiError(400, f"{name}: must be 0 unless stream is true, got {previews}", param=name)
    return previews


def _is_set(given: dict[str, Any], name: str) -> bool:
    value = given.get(name)
    if value is not None and not isinstance(value, bool):
        raise ApiError(400, f"{name}: must be true or false, got {value!r}", param=name)
    return bool(value)


def prompt_of(given: dict[str, Any], name: str = "prompt") -> str:
    """Return a prompt.

    Raises:
        ApiError: It is empty, too long, or no Unicode.
    """
    prompt = given.get(name)
    if not isinstance(prompt, str) or not prompt.strip():
        raise ApiError(400, f"{name}: must be a non-empty string", param=name)
    try:
        prompt.encode()
    except UnicodeEncodeError:  # JSON may spell half a character, which ends a tokenizer
        raise ApiError(400, f"{name}: must be valid Unicode", param=name) from None
    if len(prompt) > LONGEST_PROMPT:
        message = f"{name}: must have at most {LONGEST_PROMPT} characters, got {len(prompt)}"
        raise ApiError(400, message, param=name)
    return prompt


def size_of(size: str, settings: Settings) -> tuple[int, int]:
    """Return width and height.

    Raises:
        ApiError: It is invalid.
    """
    if size == "auto":
        return settings.sizes[0]
    known = {f"{width}x{height}": (width, height) for width, height in settings.sizes}
    if size not in known:
        raise ApiError(400, f"size: must be one of {', '.join(known)}, got {size!r}", param="size")
    return known[size]


def text(given: dict[str, Any], name: str, default: str) -> str:
    """Return the text of a field, or the default.

    Raises:
        ApiError: It is invalid.
    """
    value = given.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise ApiError(400, f"{name}: must be a string, got {value!r}", param=name)
    return value


def _one_of(value: str, name: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        message = f"{name}: must be one of {', '.join(allowed)}, got {value!r}"
        raise ApiError(400, message, param=name)
    return value


def whole(given: dict[str, Any], name: str, default: int, low: int, high: int) -> int:
    """Return the whole number of a field, or the default.

    Raises:
        ApiError: It is invalid.
    """

    def is_whole(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    value = default if given.get(name) is None else given[name]
    return _checked(name, value, low, high, is_whole, "a whole number")


def number(given: dict[str, Any], name: str, default: float, low: float, high: float) -> float:
    """Return the number of a field, or the default.

    Raises:
        ApiError: It is invalid.
    """

    def is_number(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool)

    value = default if given.get(name) is None else given[name]
    return _checked(name, value, low, high, is_number, "a number")


def _checked(
    name: str, value: Any, low: float, high: float, fits: Callable[[Any], bool], what: str
) -> Any:
    if not fits(value) or not low <= value <= high:
        message = f"{name}: must be {what} from {low:g} to {high:g}, got {value!r}"
        raise ApiError(400, message, param=name)
    return value
