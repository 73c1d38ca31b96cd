"""Images that a client sends: checked before they are decoded, then made as large as the result.

Formats are those of OpenAI's GPT image models. Nothing is decoded before its dimensions are known,
because a file of some kilobytes can describe an image of gigabytes.
"""

import base64
import io
import struct
import warnings

from PIL import Image, ImageOps

from .protocol import ApiError
from .work import Edit

MOST_PIXELS = 4096 * 4096
"""Of one image: 48 MiB in memory. OpenAI's largest result has half as many."""
_FORMATS = ("PNG", "JPEG", "WEBP")
_RULE = "must be a PNG, JPEG or WebP file"
_CODE = "invalid_image"
_HALF = 128


def opened(file: bytes, field: str) -> Image.Image:
    """Return the image of a file, decoded and upright.

    Raises:
        ApiError: It is no image, or too large.
    """
    _check_webp(file, field)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(file), formats=_FORMATS)
            _check_size(image.width, image.height, field)
            if getattr(image, "is_animated", False):
                raise ApiError(400, f"{field}: must not be animated", param=field, code=_CODE)
            image.load()
            return ImageOps.exif_transpose(image)
    except ApiError:
        raise
    except Exception as error:  # a decoder raises whatever it stumbles over: KeyError, SyntaxError
        raise ApiError(400, f"{field}: {_RULE}", param=field, code=_CODE) from error


def _check_size(width: int, height: int, field: str) -> None:
    if width < 1 or height < 1 or width * height > MOST_PIXELS:
        message = f"{field}: must have at most {MOST_PIXELS} pixels, got {width}x{height}"
        raise ApiError(400, message, param=field, code="image_too_large")


def _check_webp(file: bytes, field: str) -> None:
    """Check the canvas of a WebP file, which Pillow allocates when it opens one."""
    if file[:4] != b"RIFF" or file[8:12] != b"WEBP":
        return
    kind, head = file[12:16], file[20:30]
    if len(head) < 10 or kind not in (b"VP8 ", b"VP8L", b"VP8X"):
        raise ApiError(400, f"{field}: {_RULE}", param=field, code=_CODE)
    if kind == b"VP8X":
        width, height = (int.from_bytes(head[at : at + 3], "little") + 1 for at in (4, 7))
        if head[0] & 2:
            raise ApiError(400, f"{field}: must not be animated", param=field, code=_CODE)
    elif kind == b"VP8L":
        bits = int.from_bytes(head[1:5], "little")
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        width, height = (each & 0x3FFF for each in struct.unpack("<HH", head[6:10]))
    _check_size(width, height, field)


def edit_of(
    image: Image.Image, mask: Image.Image | None, size: tuple[int, int], strength: float
) -> Edit:
    """Return the input of an edit, resized as diffusers' image processor does."""
    pixels = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    where = b""
    if mask is not None:
        edited = mask.getchannel("A").point([255] + [0] * 255)
        edited = edited.resize(size, Image.Resampling.LANCZOS)
        where = edited.point([0] * _HALF + [255] * _HALF).tobytes()
    return Edit(_text(pixels.tobytes()), strength, _text(where))


def mask_of(file: bytes, image: Image.Image) -> Image.Image:
    """Return a mask, whose fully transparent pixels are where its image is edited.

    Raises:
        ApiError: It is no PNG file of the image's size with transparent pixels.
    """
    field = "mask"
    if not file.startswith(b"\x89PNG\r\n\x1a\n"):
        raise ApiError(400, f"{field}: must be a PNG file", param=field, code="invalid_mask")
    mask = opened(file, field)
    if mask.mode == "P" and "transparency" in mask.info:
        mask = mask.convert("RGBA")
    if "A" not in mask.getbands():
        message = f"{field}: must have an alpha channel: transparent pixels are edited"
        raise ApiError(400, message, param=field, code="invalid_mask")
    if mask.size != image.size:
        want, got = (f"{each.width}x{each.height}" for each in (image, mask))
        message = f"{field}: must have the size of the image, {want}, got {got}"
        raise ApiError(400, message, param=field, code="invalid_mask")
    if mask.getchannel("A").getextrema()[0] != 0:
        message = f"{field}: must have fully transparent pixels, which are edited"
        raise ApiError(400, message, param=field, code="invalid_mask")
    return mask


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
