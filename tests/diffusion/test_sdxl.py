"""Stable Diffusion XL, against diffusers' own pipeline; tiny models with random weights."""

import json

import numpy as np
import pytest
from PIL import Image

from tests.diffusion.conftest import run
from tests.diffusion.test_real_pipeline import LAST_BIT, ask, opened
from twin.host.paths import REPOSITORY

pytestmark = [pytest.mark.needs_tools, pytest.mark.needs_diffusion, pytest.mark.timeout(1800)]
WIDTH, HEIGHT = 64, 32
STEPS = 3
_OF_WORDS = """
import sys, torch
from safetensors.torch import save_file
layer = "lora_te1_text_model_encoder_layers_0_self_attn_q_proj"
parts = {"lora_down.weight": torch.ones(4, 32), "lora_up.weight": torch.ones(32, 4)}
save_file({f"{layer}.{name}": value for name, value in parts.items()}, sys.argv[1])
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
    run("-m", "diffusion", "tiny", folder, "--family", "sdxl", "--adapter", "comic")
    words = folder / "adapters" / "words"
    words.mkdir()
    run("-c", _OF_WORDS, words / "pytorch_lora_weights.safetensors")
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
    wanted = {"max_batch": 2, "model": "flux", "platform": "cpu", **options(base)}
    file = base / "compile.json"
    file.write_text(json.dumps(wanted))
    arguments = ("--config", file, "--chip", "cpu", "--out", base / "programs", "--rank", 4)
    run("-m", "diffusion", "compile", *arguments)
    return start(**options(base, "comic", "words")).ready()


def reference(folder, out, *extra, guidance=5.0, steps=STEPS):
    """Return the image of diffusers' own pipeline."""
    given = (folder, out, 7, WIDTH, HEIGHT, "--steps", steps, "--guidance", guidance, *extra)
    run(REPOSITORY / "tests/diffusion/reference_sdxl.py", *given)
    return np.asarray(Image.open(out)).astype(int)


def test_the_image_is_the_one_of_diffusers_own_pipeline_alone_and_in_a_batch(
    server, base, tmp_path
):
    expected = reference(base, tmp_path / "reference.png")
    first, second = ask(server, n=2)
    assert first.shape == (HEIGHT, WIDTH, 3)
    assert abs(first - expected).max() <= LAST_BIT
    assert abs(ask(server)[0] - expected).max() <= LAST_BIT
    assert abs(second - first).mean() > 10


def test_its_programs_are_compiled_in_advance(server):
    said = server.log.read_text().splitlines()
    lines = [json.loads(line) for line in said if line.startswith("{")]
    ready = next(line for line in lines if line["message"] == "ready")
    assert ready["models"]["flux"]["programs"] == {"read": 10}


@pytest.mark.parametrize("guidance", [1.0, 9.0])
def test_guidance_of_a_request_has_the_effect_that_it_has_in_diffusers(
    server, base, tmp_path, guidance
):
    expected = reference(base, tmp_path / "reference.png", guidance=guidance)
    generated = ask(server, guidance_scale=guidance)[0]
    assert abs(generated - expected).max() <= LAST_BIT
    assert abs(generated - ask(server)[0]).mean() > 1


def test_an_adapter_with_names_of_kohya_has_the_effect_that_it_has_in_diffusers(
    server, base, tmp_path
):
    extra = ("--adapter", base / "adapters" / "comic")
    expected = reference(base, tmp_path / "reference.png", *extra)
    plain = ask(server)[0]
    generated = ask(server, model="comic")[0]
    assert abs(generated - expected).max() <= LAST_BIT
    assert abs(generated - plain).mean() > 0.5
    assert (ask(server)[0] == plain).all()


def test_an_adapter_of_a_text_encoder_is_the_clients_error(server):
    status, body, _ = server.ask(prompt="x", model="words")
    assert status == 400
    assert "must change the UNet alone, got text_encoder." in body["error"]["message"]


def test_a_preview_is_the_image_that_the_unet_expects_after_its_step(server, base, tmp_path):
    expected = reference(base, tmp_path / "expected.png", "--expected-after", 2, steps=4)
    words = {"prompt": "a red bicycle", "extra_body": {"seed": 7, "num_inference_steps": 4}}
    preview, whole = server.client().images.generate(
        model="flux", stream=True, partial_images=1, **words
    )
    shown, last = (np.asarray(opened(each.b64_json)).astype(int) for each in (preview, whole))
    assert abs(shown - expected).max() <= LAST_BIT
    assert (shown != last).any()


def test_a_distilled_model_has_its_own_steps_and_noise_and_no_guidance(start, tmp_path):
    run("-c", _DISTILLED, tmp_path)
    quick = start(**{**options(tmp_path), "max_batch": 1, "steps": 0}).ready()
    expected = reference(tmp_path, tmp_path / "reference.png", guidance=0.0, steps=4)
    assert abs(ask(quick)[0] - expected).max() <= LAST_BIT
    status, body, _ = quick.ask(prompt="x", guidance_scale=5)
    assert (status, body["error"]["message"]) == (
        400,
        "guidance_scale: must be a number from 0 to 1, got 5",
    )


@pytest.mark.parametrize(
    ("file", "changed", "words"),
    [
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
    ],
)
def test_a_model_that_needs_other_code_is_refused_by_its_configuration(
    base, tmp_path, file, changed, words
):
    for name in ("model_index.json", "scheduler/scheduler_config.json", "unet/config.json"):
        text = (base / name).read_text()
        whole = {**json.loads(text), **(changed if name == file else {})}
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(whole))
    (tmp_path / "vae").symlink_to(base / "vae")
    given = {"model": "m", "platform": "cpu", **options(tmp_path)}
    (tmp_path / "settings.json").write_text(json.dumps(given))
    arguments = f"'compile', '--config', '{tmp_path}/settings.json', '--chip', 'cpu'"
    code = f"import diffusion.__main__ as m; print(m.main([{arguments}, '--out', '{tmp_path}']))"
    said = run("-c", f"import sys; sys.stderr = sys.stdout; {code}").splitlines()
    assert said[-2:] == [f"error: {words}", "2"]
    assert "Traceback" not in "".join(said)
