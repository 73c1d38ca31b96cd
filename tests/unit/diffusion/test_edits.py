import base64
import json
import struct
import zlib

import pytest
from PIL import Image

from tests.unit.diffusion.images import FORM, file, form, mask, url
from workloads.diffusion import edits
from workloads.diffusion.config import from_dict
from workloads.diffusion.families import family_of
from workloads.diffusion.protocol import ApiError, ImageRequest
from workloads.diffusion.work import Edit

SETTINGS = from_dict(
    {
        "model": "flux",
        "folder": "/weights",
        "adapters": {"comic": "/comic"},
        "max_candidates": 4,
        "sizes": ["64x64", "32x64"],
        "steps": 4,
    }
)
JSON = ["application/json"]


def ask(body, kinds=FORM, settings=SETTINGS):
    return edits.parsed(edits.read(body, kinds), settings)


def ask_json(**body):
    return ask(json.dumps(body).encode(), JSON)


def refused(body, kinds=FORM, settings=SETTINGS):
    with pytest.raises(ApiError) as found:
        ask(body, kinds, settings)
    return found.value.status, found.value.param, str(found.value)


def edit_of(request: ImageRequest) -> Edit:
    assert request.edit is not None
    return request.edit


def pixel(request: ImageRequest, at: tuple[int, int] = (0, 0)) -> tuple[int, ...]:
    size = request.width, request.height
    image = Image.frombytes("RGB", size, base64.b64decode(edit_of(request).image))
    found = image.getpixel(at)
    assert isinstance(found, tuple)
    return found


def with_pipeline(folder, name):
    """Return settings of a model whose files name its pipeline."""
    (folder / "model_index.json").write_text(json.dumps({"_class_name": name}))
    return from_dict({"model": "flux", "folder": str(folder), "sizes": ["64x64"]})


def test_a_form_and_json_ask_for_the_same():
    texts = {"model": "comic", "n": 2, "prompt": "x", "seed": 5, "size": "32x64", "strength": 0.5}
    parts = [(name, str(value)) for name, value in texts.items()]
    from_form = ask(form(*parts, ("image", file()), ("mask", mask())))
    assert from_form == ask_json(**texts, images=[url(file())], mask=url(mask()))
    assert (from_form.model, from_form.count, from_form.seed) == ("comic", 2, 5)
    assert (from_form.width, from_form.height, edit_of(from_form).strength) == (32, 64, 0.5)


def test_what_an_edit_does_not_say_is_the_default_of_diffusers_pipeline():
    asked = ask(form(("prompt", "x"), ("image", file())))
    assert (edit_of(asked).strength, edit_of(asked).mask, asked.steps, asked.count) == (
        0.6,
        "",
        4,
        1,
    )


def test_a_stream_of_a_form_has_its_previews():
    asked = ask(
        form(("prompt", "x"), ("image", file()), ("stream", "true"), ("partial_images", "2"))
    )
    assert (asked.is_streamed, asked.previews) == (True, 2)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_an_image_of_each_format_arrives(kind):
    red, green, blue = pixel(ask(form(("prompt", "x"), ("image[]", file(form=kind)))))
    assert red > 250
    assert max(green, blue) < 5


def test_an_image_is_made_as_large_as_the_result_and_auto_is_the_size_with_its_sides():
    tall = file((100, 200), "blue")
    assert ask(form(("prompt", "x"), ("image", tall))).width == 32
    asked = ask(form(("prompt", "x"), ("image", tall), ("size", "64x64")))
    assert (asked.width, asked.height) == (64, 64)
    assert len(base64.b64decode(edit_of(asked).image)) == 64 * 64 * 3
    assert pixel(asked, (63, 63)) == (0, 0, 255)


def test_a_photograph_is_turned_as_its_camera_says():
    exif = Image.Exif()
    exif[0x0112] = 6  # a quarter turn
    turned = file((200, 100), form="JPEG", exif=exif)
    assert ask(form(("prompt", "x"), ("image", turned))).width == 32


def test_a_mask_is_255_where_its_pixels_are_fully_transparent():
    asked = ask(form(("prompt", "x"), ("image", file()), ("mask", mask(hole=(0, 0, 32, 64)))))
    where = Image.frombytes("L", (64, 64), base64.b64decode(edit_of(asked).mask))
    assert where.getpixel((8, 8)) == 255
    assert where.getpixel((40, 8)) == 0
    assert set(where.tobytes()) == {0, 255}


IMAGE = ("image", file())
PROMPT = ("prompt", "x")


@pytest.mark.parametrize(
    ("parts", "param", "words"),
    [
        ([PROMPT], "image", "must be set"),
        ([IMAGE], "prompt", "non-empty"),
        ([PROMPT, ("image", b"text")], "image", "PNG, JPEG or WebP"),
        ([PROMPT, ("image", b"")], "image", "PNG, JPEG or WebP"),
        ([PROMPT, ("image", file()[:60])], "image", "PNG, JPEG or WebP"),
        ([PROMPT, ("image", file(form="GIF"))], "image", "PNG, JPEG or WebP"),
        ([PROMPT, ("image", b"RIFF\x08\0\0\0WEBPVP8 ")], "image", "PNG, JPEG or WebP"),
        ([PROMPT, ("image", "text")], "image", "must be a file"),
        ([PROMPT, IMAGE, IMAGE], "image", "at most 1, got 2"),
        ([("prompt", b"x"), IMAGE], "prompt", "must be a text"),
        ([PROMPT, PROMPT, IMAGE], "prompt", "only once"),
        ([PROMPT, IMAGE, ("mask", file())], "mask", "alpha"),
        ([PROMPT, IMAGE, ("mask", file(mode="L", color="black"))], "mask", "alpha"),
        ([PROMPT, IMAGE, ("mask", file(form="WEBP"))], "mask", "PNG"),
        ([PROMPT, IMAGE, ("mask", mask((32, 64)))], "mask", "64x64, got 32x64"),
        ([PROMPT, IMAGE, ("mask", mask(hole=(0, 0, 0, 0)))], "mask", "transparent"),
        ([PROMPT, IMAGE, ("mask", mask()), ("mask", mask())], "mask", "only once"),
        ([PROMPT, IMAGE, ("n", "9")], "n", "from 1 to 4"),
        ([PROMPT, IMAGE, ("n", "two")], "n", "whole number"),
        ([PROMPT, IMAGE, ("n", "²")], "n", "whole number"),
        ([PROMPT, IMAGE, ("n", "9" * 5000)], "n", "whole number"),
        ([PROMPT, IMAGE, ("strength", "0")], "strength", "from 0.01 to 1"),
        ([PROMPT, IMAGE, ("strength", "nan")], "strength", "a number"),
        ([PROMPT, IMAGE, ("stream", "yes")], "stream", "true or false"),
        ([PROMPT, IMAGE, ("size", "1x1")], "size", "64x64"),
        ([PROMPT, IMAGE, ("quality", "high")], "quality", "no such field"),
        ([PROMPT, IMAGE, ("response_format", "url")], "response_format", "b64_json"),
    ],
)
def test_what_is_wrong_with_a_form_is_named(parts, param, words):
    status, field, message = refused(form(*parts))
    assert (status, field) == (400, param)
    assert words in message


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"images": url(file())}, "images"),
        ({"images": []}, "image"),
        ({"images": [url(file())] * 17}, "images"),
        ({"images": ["x"]}, "images"),
        ({"images": [{"file_id": "file-1"}]}, "images"),
        ({"images": [{"image_url": "https://example.com/a.png"}]}, "images"),
        ({"images": [{"image_url": "file:///etc/passwd"}]}, "images"),
        ({"images": [{"image_url": "data:image/svg+xml;base64,AAAA"}]}, "images"),
        ({"images": [{"image_url": "data:image/png;base64,%%%%"}]}, "images"),
        ({"images": [{"image_url": "data:image/png;base64,AAAA"}]}, "image"),
        ({"images": [url(file())], "mask": "x"}, "mask"),
        ({"image": "x", "images": [url(file())]}, "image"),
        ({}, "images"),
    ],
)
def test_what_is_wrong_with_json_is_named(body, param):
    status, field, _ = refused(json.dumps({"prompt": "x", **body}).encode(), JSON)
    assert (status, field) == (400, param)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 100_000, b"\xff"])
def test_a_body_that_is_neither_form_nor_json_is_refused(body):
    assert refused(body, JSON)[0] == 400
    assert refused(body, FORM)[0] == 400


def png_of(width, height):
    """Return a PNG file of some hundred bytes that decodes to any number of pixels."""

    def chunk(kind, content):
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress(b"\0" * 1000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def webp_of(kind):
    """Return the head of a WebP file of 16384x16384 pixels."""
    heads = {
        b"VP8X": b"\0\0\0\0" + b"\xff\x3f\0" * 2,
        b"VP8L": b"\x2f" + struct.pack("<I", 0x3FFF | 0x3FFF << 14) + bytes(5),
        b"VP8 ": b"\0\0\0\x9d\x01\x2a" + b"\xff\x3f" * 2,
    }
    return b"RIFF\x20\0\0\0WEBP" + kind + b"\x0a\0\0\0" + heads[kind] + bytes(20)


@pytest.mark.parametrize(
    "bomb",
    [
        png_of(5000, 5000),
        png_of(60_000, 60_000),
        png_of(2**31 - 1, 2**31 - 1),
        webp_of(b"VP8X"),
        webp_of(b"VP8L"),
        webp_of(b"VP8 "),
    ],
)
def test_an_image_with_too_many_pixels_is_refused_before_it_is_decoded(bomb, monkeypatch):
    monkeypatch.setattr(Image.Image, "load", lambda _: pytest.fail("it was decoded"))
    status, field, _ = refused(form(PROMPT, ("image", bomb)))
    assert (status, field) == (400, "image")


def test_an_animation_is_refused():
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "blue")]
    for kind in ("PNG", "WEBP"):
        moving = file((8, 8), form=kind, save_all=True, append_images=frames)
        assert "animated" in refused(form(PROMPT, ("image", moving)))[2]


def test_a_model_that_cannot_edit_is_refused_and_an_unknown_one_is_not_found(tmp_path):
    (tmp_path / "unet").mkdir()
    (tmp_path / "unet" / "config.json").write_text("{}")
    sdxl = from_dict({"model": "sdxl", "folder": str(tmp_path), "sizes": ["64x64"]})
    status, field, message = refused(form(PROMPT, IMAGE), settings=sdxl)
    assert (status, field, message) == (400, "model", "The model 'sdxl' does not edit images")
    assert refused(form(PROMPT, IMAGE, ("model", "y")))[:2] == (404, "model")


def test_the_pipeline_of_a_flux_model_says_how_it_edits(tmp_path):
    for name, how in (("FluxPipeline", "image-to-image"), ("FluxFillPipeline", "fill")):
        with_pipeline(tmp_path, name)
        assert family_of(str(tmp_path)).edits == how
    with_pipeline(tmp_path, "FluxKontextPipeline")
    assert (family_of(str(tmp_path)).edits, family_of(str(tmp_path)).guidance) == ("kontext", 2.5)


def test_a_fill_model_needs_a_mask_and_a_kontext_model_takes_none(tmp_path):
    fill = with_pipeline(tmp_path, "FluxFillPipeline")
    assert refused(form(PROMPT, IMAGE), settings=fill)[1] == "mask"
    assert edit_of(ask(form(PROMPT, IMAGE, ("mask", mask())), settings=fill)).strength == 1
    (other := tmp_path / "kontext").mkdir()
    kontext = with_pipeline(other, "FluxKontextPipeline")
    assert refused(form(PROMPT, IMAGE, ("mask", mask())), settings=kontext)[1] == "mask"
    assert refused(form(PROMPT, IMAGE, ("strength", "0.5")), settings=kontext)[1] == "strength"
    assert edit_of(ask(form(PROMPT, IMAGE), settings=kontext)).strength == 1
