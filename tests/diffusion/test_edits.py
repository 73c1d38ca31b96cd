"""Edits with the real pipelines, and what diffusers' own pipelines make of the same image."""

import io
import json

import numpy as np
import pytest
from PIL import Image

from tests.diffusion.conftest import SIZE, run
from tests.diffusion.test_real_pipeline import LAST_BIT, pictures
from tests.unit.diffusion.images import url
from twin.host.paths import REPOSITORY

pytestmark = [
    pytest.mark.needs_tools,
    pytest.mark.needs_diffusion,
    pytest.mark.soak,  # 27 programs; tests/running/diffusion has the server without them
    pytest.mark.timeout(2400),
]
_TINY = """
import pathlib, sys, diffusers
from diffusion.xla import tiny
for seed, name in enumerate(("FluxPipeline", "FluxFillPipeline", "FluxKontextPipeline"), 1):
    tiny.write_pipeline(pathlib.Path(sys.argv[1], name), seed, getattr(diffusers, name))
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    run("-c", _TINY, folder)
    return folder


@pytest.fixture(scope="module")
def server(start, models):
    """A server with a model of each pipeline."""
    further = [
        {"model": kind, "folder": str(models / name), "steps": 4}
        for kind, name in (("fill", "FluxFillPipeline"), ("kontext", "FluxKontextPipeline"))
    ]
    return start(
        adapters={},
        base_models=further,
        folder=str(models / "FluxPipeline"),
        programs_folder="",
        steps=4,
    ).ready(1500)  # each program compiles for 2 s, or 50 s on a busy machine


@pytest.fixture(scope="module")
def image():
    """An image of other sides than the result, in which no two places are alike."""
    rows, columns = np.mgrid[0:48, 0:80]
    pixels = np.stack((rows * 5, columns * 3, (rows * columns) % 256), axis=-1)
    return Image.fromarray(pixels.astype(np.uint8))


@pytest.fixture(scope="module")
def mask(image):
    """White where the image is edited."""
    made = Image.new("L", image.size, 0)
    made.paste(255, (30, 10, 80, 48))
    return made


def png(image):
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def transparent(mask):
    """Return a mask as clients send it: transparent where it is white."""
    made = Image.new("RGBA", mask.size, "black")
    made.putalpha(mask.point([255 - value for value in range(256)]))
    return made


def edited(server, image, mask=None, **body):
    if mask is not None:
        body["mask"] = url(png(transparent(mask)))
    body = {"prompt": "a red bicycle", "seed": 7, "images": [url(png(image))], **body}
    status, answer, _ = server.post("/v1/images/edits", **body)
    return pictures((status, json.loads(answer), None))


def reference(models, folder, image, tmp_path, mask=None, seed=7, **options):
    """Return what diffusers' pipeline makes of the image."""
    image.save(tmp_path / "image.png")
    extra = [] if mask is None else ["--mask", tmp_path / "mask.png"]
    if mask is not None:
        mask.save(tmp_path / "mask.png")
    for name, value in options.items():
        extra += [f"--{name}", value]
    out, script = tmp_path / "out.png", REPOSITORY / "tests/diffusion/reference_edit.py"
    run(script, models / folder, out, seed, SIZE, tmp_path / "image.png", *extra)
    return np.asarray(Image.open(out)).astype(int)


def differ(found, expected):
    return abs(found - expected).max()


@pytest.mark.parametrize("strength", [0.3, 0.6, 1.0])
def test_an_image_becomes_what_diffusers_makes_of_it(server, models, image, tmp_path, strength):
    expected = reference(models, "FluxPipeline", image, tmp_path, strength=strength)
    found = edited(server, image, strength=strength)[0]
    assert differ(found, expected) <= LAST_BIT
    assert differ(found, edited(server, image, strength=strength, seed=8)[0]) > LAST_BIT


@pytest.mark.parametrize("strength", [0.6, 1.0])
def test_what_a_mask_has_becomes_what_diffusers_makes_of_it(
    server, models, image, mask, tmp_path, strength
):
    expected = reference(models, "FluxPipeline", image, tmp_path, mask, strength=strength)
    found = edited(server, image, mask, strength=strength)[0]
    assert differ(found, expected) <= LAST_BIT
    assert differ(found, edited(server, image, strength=strength)[0]) > LAST_BIT


def test_a_fill_model_makes_what_diffusers_makes(server, models, image, mask, tmp_path):
    expected = reference(models, "FluxFillPipeline", image, tmp_path, mask, kind="fill")
    assert differ(edited(server, image, mask, model="fill")[0], expected) <= LAST_BIT


def test_a_kontext_model_makes_what_diffusers_makes(server, models, image, tmp_path):
    resized = image.resize((SIZE, SIZE), Image.Resampling.LANCZOS)
    expected = reference(models, "FluxKontextPipeline", resized, tmp_path, kind="kontext")
    assert differ(edited(server, image, model="kontext")[0], expected) <= LAST_BIT


@pytest.mark.parametrize("model", ["flux", "fill", "kontext"])
def test_an_edit_of_a_batch_is_the_one_made_alone(server, image, mask, model):
    given = {"model": model, "mask": None if model == "kontext" else mask}
    batch = edited(server, image, n=2, **given)
    alone = [edited(server, image, seed=seed, **given)[0] for seed in (7, 8)]
    assert differ(np.stack(batch), np.stack(alone)) <= LAST_BIT
    assert server.metric('diffusion_stage_seconds_count{stage="vae_encode"}') > 0


def test_an_edit_leaves_nothing_behind_for_images_from_text(server, image):
    before = pictures(server.ask(prompt="a red bicycle", seed=7))[0]
    edited(server, image)
    assert (pictures(server.ask(prompt="a red bicycle", seed=7))[0] == before).all()


def test_models_that_only_edit_generate_nothing_from_text(server):
    for model in ("fill", "kontext"):
        status, body, _ = server.ask(prompt="x", model=model)
        assert (status, body["error"]["param"]) == (400, "model")
