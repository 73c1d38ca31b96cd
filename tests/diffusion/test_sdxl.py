"""Stable Diffusion XL, against diffusers' own pipeline; tiny models with random weights."""

import json

import numpy as np
import pytest
from PIL import Image

from tests.diffusion.conftest import run
from tests.diffusion.refused import change, copied, refusals
from tests.diffusion.test_real_pipeline import LAST_BIT, ask, opened
from twin.host.paths import REPOSITORY

pytestmark = [pytest.mark.needs_tools, pytest.mark.needs_diffusion, pytest.mark.timeout(1800)]
WIDTH, HEIGHT = 64, 32
STEPS = 3
_TINY = """
import pathlib, sys, torch
from diffusion.xla import tiny_sdxl
from safetensors.torch import save_file
folder = pathlib.Path(sys.argv[1])
tiny_sdxl.write_pipeline(folder)
tiny_sdxl.write_adapter(folder / "adapters" / "comic")
layer = "lora_te1_text_model_encoder_layers_0_self_attn_q_proj"
parts = {"lora_down.weight": torch.ones(4, 32), "lora_up.weight": torch.ones(32, 4)}
words = folder / "adapters" / "words"
words.mkdir()
named = {f"{layer}.{name}": value for name, value in parts.items()}
save_file(named, words / "pytorch_lora_weights.safetensors")
"""
_DISTILLED = """
import pathlib, sys
from diffusion.xla import tiny_sdxl
tiny_sdxl.write_pipeline(pathlib.Path(sys.argv[1]), seed=1, is_distilled=True)
"""


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """A folder with a tiny pipeline, an adapter of its UNet, and one of a text encoder."""
    folder = tmp_path_factory.mktemp("base")
    run("-c", _TINY, folder)
    return folder


def options(folder, *adapters):
    """Return the settings of a server."""
    return {
        "adapters": {name: str(folder / "adapters" / name) for name in adapters},
        "folder": str(folder),
        "programs_folder": str(folder / "programs"),
        "sizes": [f"{WIDTH}x{HEIGHT}"],
        "steps": STEPS,
    }


@pytest.fixture(scope="module")
def server(start, base):
    """A server whose programs were compiled in advance."""
    wanted = {"max_batch": 1, "model": "flux", "platform": "cpu", **options(base)}
    file = base / "compile.json"
    file.write_text(json.dumps(wanted))
    arguments = ("--config", file, "--chip", "cpu", "--out", base / "programs", "--rank", 4)
    run("-m", "diffusion", "compile", *arguments)
    return start(**options(base, "comic", "words"), max_batch=1).ready()


def drawn(folder, out, images):
    """Return the images of diffusers' own pipeline by their names."""
    files = {name: str(out / f"{name}.png") for name in images}
    plain = {"guidance": 5.0, "steps": STEPS}
    asked = [{"out": files[name], **plain, **image} for name, image in images.items()]
    script = REPOSITORY / "tests/diffusion/reference_sdxl.py"
    run(script, folder, 7, WIDTH, HEIGHT, json.dumps(asked))
    return {name: np.asarray(Image.open(file)).astype(int) for name, file in files.items()}


@pytest.fixture(scope="module")
def expected(base, tmp_path_factory):
    """What diffusers' own pipeline generates for the requests of the tests."""
    images = {
        "adapter": {"adapter": str(base / "adapters" / "comic")},
        "guidance 1.0": {"guidance": 1.0},
        "guidance 9.0": {"guidance": 9.0},
        "plain": {},
        "preview": {"expected_after": 2, "steps": 4},
    }
    return drawn(base, tmp_path_factory.mktemp("references"), images)


def test_the_image_is_the_one_of_diffusers_own_pipeline(server, expected):
    found = ask(server)[0]
    assert found.shape == (HEIGHT, WIDTH, 3)
    assert abs(found - expected["plain"]).max() <= LAST_BIT


@pytest.mark.soak  # a server of its own; test_real_pipeline.py has a batch
def test_an_image_of_a_batch_is_the_one_of_diffusers_own_pipeline(start, base, expected):
    first, second = ask(start(**options(base), max_batch=2).ready(), n=2)
    assert abs(first - expected["plain"]).max() <= LAST_BIT
    assert abs(second - first).mean() > 10


def test_its_programs_are_compiled_in_advance(server):
    said = server.log.read_text().splitlines()
    lines = [json.loads(line) for line in said if line.startswith("{")]
    ready = next(line for line in lines if line["message"] == "ready")
    assert ready["models"]["flux"]["programs"] == {"read": 5}


@pytest.mark.parametrize("guidance", [1.0, 9.0])
def test_guidance_of_a_request_has_the_effect_that_it_has_in_diffusers(server, expected, guidance):
    generated = ask(server, guidance_scale=guidance)[0]
    assert abs(generated - expected[f"guidance {guidance}"]).max() <= LAST_BIT
    assert abs(generated - ask(server)[0]).mean() > 1


def test_an_adapter_with_names_of_kohya_has_the_effect_that_it_has_in_diffusers(server, expected):
    plain = ask(server)[0]
    generated = ask(server, model="comic")[0]
    assert abs(generated - expected["adapter"]).max() <= LAST_BIT
    assert abs(generated - plain).mean() > 0.5
    assert (ask(server)[0] == plain).all()


def test_an_adapter_of_a_text_encoder_is_the_clients_error(server):
    status, body, _ = server.ask(prompt="x", model="words")
    assert status == 400
    assert "must change the UNet alone, got text_encoder." in body["error"]["message"]


def test_a_preview_is_the_image_that_the_unet_expects_after_its_step(server, expected):
    words = {"prompt": "a red bicycle", "extra_body": {"seed": 7, "num_inference_steps": 4}}
    preview, whole = server.client().images.generate(
        model="flux", stream=True, partial_images=1, **words
    )
    shown, last = (np.asarray(opened(each.b64_json)).astype(int) for each in (preview, whole))
    assert abs(shown - expected["preview"]).max() <= LAST_BIT
    assert (shown != last).any()


@pytest.mark.soak  # a server of its own; tests/unit/diffusion has the range of guidance
def test_a_distilled_model_has_its_own_steps_and_noise_and_no_guidance(start, tmp_path):
    run("-c", _DISTILLED, tmp_path)
    quick = start(**{**options(tmp_path), "max_batch": 1, "steps": 0}).ready()
    expected = drawn(tmp_path, tmp_path, {"plain": {"guidance": 0.0, "steps": 4}})
    assert abs(ask(quick)[0] - expected["plain"]).max() <= LAST_BIT
    status, body, _ = quick.ask(prompt="x", guidance_scale=5)
    assert (status, body["error"]["message"]) == (
        400,
        "guidance_scale: must be a number from 0 to 1, got 5",
    )


REFUSED = [
    (
        "scheduler/scheduler_config.json",
        {"_class_name": "LCMScheduler"},
        "scheduler_config.json: _class_name: must be EulerDiscreteScheduler or "
        "EulerAncestralDiscreteScheduler for Stable Diffusion XL, got LCMScheduler",
    ),
    (
        "unet/config.json",
        {"in_channels": 9},
        "unet/config.json: in_channels: must be 4 for Stable Diffusion XL, got 9",
    ),
]


def test_a_model_that_needs_other_code_is_refused_by_its_configuration(base, tmp_path):
    folders = []
    for file, changed, _ in REFUSED:
        folders.append(tmp_path / str(len(folders)))
        copied(base, folders[-1], ("unet/config.json",), ("vae",), options(folders[-1]))
        change(folders[-1] / file, changed)
    assert refusals(folders) == [words for _, _, words in REFUSED]
