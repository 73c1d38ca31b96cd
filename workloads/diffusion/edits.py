"""`POST /v1/images/edits`: OpenAI's API for images that change an image.

A form has `image` (or `image[]`) and `mask` as files, and the other fields as texts. A JSON body
has `images` and `mask` as objects with a data URL in `image_url`. `strength` is diffusers': how
much of the denoising runs on the image.
"""

import base64
import binascii
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from . import forms, inputs
from .config import Settings
from .families import FILL, KONTEXT
from .protocol import ACCEPTED, ApiError, ImageRequest, fields_of, model_of, number, parse

MOST_IMAGES = 16
"""Images of a request in OpenAI's API; the models here take one."""
_DEFAULT_STRENGTH = 0.6
"""That of diffusers' FluxImg2ImgPipeline and FluxInpaintPipeline."""
_LEAST_STRENGTH = 0.01
_NUMBERS = ("guidance_scale", "n", "num_inference_steps", "partial_images", "seed", "strength")
_WORDS = {"true": True, "false": False}
_KINDS = ("image/jpeg", "image/jpg", "image/png", "image/webp")


@dataclass(frozen=True)
class Body:
    """The body of a request: its fields, and the files of its images."""

    fields: dict[str, Any]
    images: tuple[bytes, ...]
    mask: bytes | None


def from_form(body: bytes, content_types: Sequence[str]) -> Body:
    """Return the fields of a form, with numbers and switches as in JSON.

    Raises:
        ApiError: The form has another grammar, or other fields.
    """
    try:
        parts = forms.read(body, forms.boundary_of(content_types))
    except forms.FormError as error:
        where = "" if error.field is None else f"{error.field}: "
        raise ApiError(400, f"{where}{error}", param=error.field, code="invalid_form") from error
    fields: dict[str, Any] = {}
    images: list[bytes] = []
    mask: bytes | None = None
    for part in parts:
        name = part.name
        if name in ("image", "image[]", "mask"):
            if not part.is_file:
                raise ApiError(400, f"{name}: must be a file", param=name)
            if name != "mask":
                images.append(part.content)
            elif mask is None:
                mask = part.content
            else:
                raise ApiError(400, "mask: must appear only once", param=name)
            continue
        if part.is_file:
            raise ApiError(400, f"{name}: must be a text, not a file", param=name)
        if name in fields:
            raise ApiError(400, f"{name}: must appear only once", param=name)
        fields[name] = _value(name, part.content.decode())
    return Body(fields, tuple(images), mask)


def _value(name: str, text: str) -> Any:
    """Return the value of a text, as JSON has it; a text that is no such value stays one."""
    if name == "stream":
        return _WORDS.get(text, text)
    if name not in _NUMBERS or len(text) > 32:
        return text
    try:
        return int(text) if text.isascii() and text.isdigit() else _finite(text)
    except ValueError:
        return text


def _finite(text: str) -> float | str:
    value = float(text)
    return value if math.isfinite(value) else text


def from_json(body: Any) -> Body:
    """Return the fields of a JSON body, and the files of its data URLs.

    Raises:
        ApiError: An image is no data URL.
    """
    given = fields_of(body, _ACCEPTED | {"images", "mask"})
    fields = {name: value for name, value in given.items() if name not in ("images", "mask")}
    images = given.get("images")
    if not isinstance(images, list):
        raise ApiError(400, "images: must be a list of objects with image_url", param="images")
    found: list[Any] = images
    if len(found) > MOST_IMAGES:
        raise _too_many("images", len(found))
    mask = given.get("mask")
    return Body(
        fields,
        tuple(_file(each, "images") for each in found),
        None if mask is None else _file(mask, "mask"),
    )


def _file(given: Any, field: str) -> bytes:
    """Return the file of a data URL. The server fetches no URL, and keeps no files."""
    reference: dict[str, Any] = given if isinstance(given, dict) else {}
    url = reference.get("image_url")
    if set(reference) != {"image_url"} or not isinstance(url, str):
        message = f"{field}: must be an object with image_url, and nothing else"
        raise ApiError(400, message, param=field)
    head, comma, data = url.partition(",")
    if not comma or head not in [f"data:{kind};base64" for kind in _KINDS]:
        message = f"{field}: image_url must be a data URL of a PNG, JPEG or WebP file in base64"
        raise ApiError(400, message, param=field)
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ApiError(400, f"{field}: image_url must be base64", param=field) from error


_ACCEPTED = ACCEPTED | {"strength"}


def read(body: bytes, content_types: Sequence[str]) -> Body:
    """Return the body of a request, a form or JSON.

    Raises:
        ApiError: It is neither.
    """
    if forms.is_form(content_types):
        return from_form(body, content_types)
    try:
        return from_json(json.loads(body))
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"the body is not JSON: {error}") from error


def parsed(body: Body, settings: Settings) -> ImageRequest:
    """Return the request of a body, with its images decoded.

    Raises:
        ApiError: The server does not support the request; 404 for an unknown model.
    """
    given = fields_of(body.fields, _ACCEPTED)
    model, _, base = model_of(given, settings)
    if not base.family.is_video and not base.family.edits:
        raise ApiError(400, f"The model {model!r} does not edit images", param="model")
    how = base.family.edits
    if how in (FILL, KONTEXT) and given.get("strength") is not None:
        message = f"strength: must not be set: the model {model!r} denoises from noise alone"
        raise ApiError(400, message, param="strength")
    if how == FILL and body.mask is None:
        raise ApiError(400, f"mask: must be set for the model {model!r}", param="mask")
    if how == KONTEXT and body.mask is not None:
        message = f"mask: must not be set: the model {model!r} finds by itself what to change"
        raise ApiError(400, message, param="mask")
    whole = 1.0 if how in (FILL, KONTEXT) else _DEFAULT_STRENGTH
    strength = number(given, "strength", whole, _LEAST_STRENGTH, 1.0)
    rest = {name: value for name, value in given.items() if name != "strength"}
    request = parse(rest, settings, is_edit=True)
    image = inputs.opened(_only(body.images), "image")
    mask = None if body.mask is None else inputs.mask_of(body.mask, image)
    size = request.width, request.height
    if given.get("size") in (None, "auto"):
        size = _nearest(image.width / image.height, settings)
    edit = inputs.edit_of(image, mask, size, strength)
    return replace(request, edit=edit, width=size[0], height=size[1])


def _only(images: tuple[bytes, ...]) -> bytes:
    """Return the image of a request.

    Raises:
        ApiError: There is none, or there are several.
    """
    match images:
        case ():
            raise ApiError(400, "image: must be set", param="image")
        case (image,):
            return image
        case _:
            raise _too_many("image", len(images), 1)


def _too_many(field: str, count: int, most: int = MOST_IMAGES) -> ApiError:
    message = f"{field}: must be at most {most}, got {count}"
    return ApiError(400, message, param=field)


def _nearest(ratio: float, settings: Settings) -> tuple[int, int]:
    """Return the size whose sides are most like those of an image; the first of several."""

    def distance(size: tuple[int, int]) -> float:
        return abs(math.log(size[0] / size[1] / ratio))

    return min(settings.sizes, key=distance)
