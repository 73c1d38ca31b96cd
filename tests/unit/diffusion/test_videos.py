import json
import re

import pytest

from workloads.diffusion import protocol, videos
from workloads.diffusion.config import from_dict
from workloads.diffusion.protocol import ApiError


def wan(folder, **given):
    """Write the file that tells the family of a model, and return the settings of a server."""
    (folder / "transformer").mkdir(exist_ok=True)
    config = json.dumps({"_class_name": "WanTransformer3DModel"})
    (folder / "transformer" / "config.json").write_text(config)
    sizes = ["832x480", "480x832"]
    return {"model": "wan", "folder": str(folder), "max_batch": 1, "sizes": sizes, **given}


@pytest.fixture
def settings(tmp_path):
    return from_dict(wan(tmp_path, frames=[81, 33]))


def test_what_a_request_does_not_say_is_the_default_of_diffusers_pipeline(settings):
    asked = videos.parse({"prompt": "a red bicycle"}, settings)
    assert (asked.frames, asked.steps, asked.guidance, asked.negative) == (81, 50, 5.0, "")
    assert (asked.width, asked.height, asked.count, asked.format) == (832, 480, 1, "mp4")


def test_everything_that_a_request_may_say_is_taken(settings):
    body = {
        "guidance_scale": 6,
        "model": "wan",
        "negative_prompt": "blurred",
        "num_frames": 33,
        "num_inference_steps": 8,
        "prompt": "x",
        "seed": 5,
        "size": "480x832",
        "user": "me",
    }
    asked = videos.parse(body, settings)
    assert (asked.guidance, asked.base, asked.negative, asked.frames) == (6, "wan", "blurred", 33)
    assert (asked.steps, asked.prompt, asked.seed) == (8, "x", 5)
    assert (asked.width, asked.height) == (480, 832)


@pytest.mark.parametrize(("seconds", "frames"), [("5", 81), ("5.0625", 81), ("2", 33)])
def test_seconds_are_the_nearest_number_of_frames(settings, seconds, frames):
    assert videos.parse({"prompt": "x", "seconds": seconds}, settings).frames == frames


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_frames": 49}, "num_frames: must be one of 81, 33, got 49"),
        ({"seconds": "4"}, "seconds: must be about 5.062 or 2.062, as a string, got '4'"),
        ({"seconds": "nan"}, "seconds: must be about 5.062 or 2.062, as a string, got 'nan'"),
        ({"seconds": 5}, "seconds: must be a string, got 5"),
        ({"seconds": "5", "num_frames": 33}, "num_frames: must not be set beside seconds, got 33"),
        ({"fps": 24}, "fps: this server has no such field"),
        ({"n": 2}, "n: this server has no such field"),
        ({"partial_images": 1}, "partial_images: this server has no such field"),
        ({"negative_prompt": 3}, "negative_prompt: must be a string, got 3"),
        ({"size": "512x512"}, "size: must be one of 832x480, 480x832, got '512x512'"),
    ],
)
def test_what_the_server_cannot_generate_is_refused(settings, given, message):
    with pytest.raises(ApiError, match=f"^{re.escape(message)}$") as caught:
        videos.parse({"prompt": "x", **given}, settings)
    assert caught.value.status == 400


def test_a_negative_prompt_needs_guidance(tmp_path):
    settings = from_dict(wan(tmp_path, guidance=1.0))
    assert videos.parse({"prompt": "x", "negative_prompt": " "}, settings).negative == ""
    with pytest.raises(ApiError, match="negative_prompt: must be empty, because there is no"):
        videos.parse({"prompt": "x", "negative_prompt": "blurred"}, settings)
    with pytest.raises(ApiError, match="guidance_scale: must be a number from 0 to 1, got 5"):
        videos.parse({"prompt": "x", "guidance_scale": 5}, settings)


def test_each_route_names_the_other_for_a_model_of_the_other_kind(settings):
    with pytest.raises(ApiError, match="'wan' generates videos: use POST /v1/videos/sync"):
        protocol.parse({"prompt": "x"}, settings)
    images = from_dict({"model": "flux", "folder": "/weights"})
    with pytest.raises(ApiError, match="'flux' generates images: use POST /v1/images/generations"):
        videos.parse({"prompt": "x"}, images)


def test_an_unknown_model_does_not_exist(settings):
    with pytest.raises(ApiError, match="The model 'other' does not exist") as caught:
        videos.parse({"prompt": "x", "model": "other"}, settings)
    assert caught.value.status == 404


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"frames": []}, "frames: must be multiples of 4 plus 1, at least one, got []"),
        ({"frames": [80]}, "frames: must be multiples of 4 plus 1, at least one, got [80]"),
        ({"frames": -3}, "frames: must be multiples of 4 plus 1, at least one, got [-3]"),
        ({"frames": ["81"]}, "frames: must be whole numbers, got '81'"),
        ({"fps": 0}, "fps: must be at least 1, got 0"),
        ({"max_batch": 4}, "max_batch: must be 1 for Wan 2.1: one video fills a chip, got 4"),
        (
            {"step_cache": 0.1},
            "step_cache: must be 0 for Wan 2.1: what its blocks reuse was not measured, got 0.1",
        ),
        (
            {"sigmas": [1, 0.5]},
            "sigmas: must be empty for Wan 2.1: the schedule is in the model's "
            "scheduler_config.json, got [1.0, 0.5]",
        ),
        (
            {"base_models": [{"model": "flux", "folder": "/weights"}]},
            "base_models: must all generate videos, or all images, got flux of FLUX.1",
        ),
    ],
)
def test_settings_that_a_server_of_videos_cannot_have_are_refused(tmp_path, given, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        from_dict(wan(tmp_path, **given)).check_families()
