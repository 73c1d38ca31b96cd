"""Validation of requests for videos.

`POST /v1/videos/sync` is vLLM-Omni's route, with its names of fields and with JSON instead of a
form, because the router in front of the servers reads the model's name from JSON. The response is
the file. OpenAI's `POST /v1/videos` answers with a job, and needs a store that outlives a server.
"""

import secrets
from typing import Any

from . import protocol
from .config import LATENT_FRAME, Settings
from .protocol import ApiError, ImageRequest

_ACCEPTED = frozenset(
    {
        "adapter_names",
        "adapter_weights",
        "guidance_scale",
        "model",
        "negative_prompt",
        "num_frames",
        "num_inference_steps",
        "prompt",
        "seconds",
        "seed",
        "size",
        "user",
    }
)


def parse(body: Any, settings: Settings) -> ImageRequest:
    """Return the request of a JSON body.

    Raises:
        ApiError: The server does not support the request; 404 for an unknown model.
    """
    given = protocol.fields_of(body, _ACCEPTED)
    model, chosen, base = protocol.model_of(given, settings)
    if not base.family.is_video:
        message = f"The model {model!r} generates images: use POST {protocol.IMAGES}"
        raise ApiError(400, message, param="model")
    width, height = protocol.size_of(protocol.text(given, "size", "auto"), settings)
    last = protocol.LARGEST_SEED
    return ImageRequest(
        adapters=chosen,
        base=base.model,
        count=1,
        format="mp4",
        frames=_frames(given, settings),
        guidance=protocol.guidance_of(given, base),
        height=height,
        model=model,
        negative=_negative(given, base),
        prompt=protocol.prompt_of(given),
        seed=protocol.whole(given, "seed", secrets.randbelow(last), 0, last),
        steps=protocol.steps_of(given, base),
        width=width,
    )


def _frames(given: dict[str, Any], settings: Settings) -> int:
    name, allowed = "num_frames", settings.frames
    count = protocol.whole(given, name, allowed[0], 1, max(allowed))
    if count not in allowed:
        rule = f"must be one of {', '.join(map(str, allowed))}"
        raise ApiError(400, f"{name}: {rule}, got {count}", param=name)
    if given.get("seconds") is None:
        return count
    if given.get(name) is not None:
        raise ApiError(400, f"{name}: must not be set beside seconds, got {count}", param=name)
    return _frames_of(protocol.text(given, "seconds", ""), settings)


def _frames_of(seconds: str, settings: Settings) -> int:
    """Return the number of frames that is nearest to a duration, and less than one more away."""
    try:
        wanted = float(seconds) * settings.fps
    except ValueError:
        wanted = float("nan")
    found = min(settings.frames, key=lambda count: abs(count - wanted))
    if not abs(found - wanted) < LATENT_FRAME:
        durations = " or ".join(f"{count / settings.fps:.4g}" for count in settings.frames)
        message = f"seconds: must be about {durations}, as a string, got {seconds!r}"
        raise ApiError(400, message, param="seconds")
    return found


def _negative(given: dict[str, Any], settings: Settings) -> str:
    name = "negative_prompt"
    negative = protocol.text(given, name, "")
    if not negative.strip():
        return ""
    if not settings.is_guided:
        raise ApiError(400, f"{name}: must be empty, because there is no guidance", param=name)
    return protocol.prompt_of(given, name)
