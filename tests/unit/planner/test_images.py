import pytest

from gke_inference.sizing.architectures import find
from planner.choice.image_plan import seconds_of
from planner.unit_cost.image_speed import stage_seconds


def test_steps_and_decoding_take_what_is_published_and_the_stages_are_the_planners_picture():
    stages = stage_seconds("tpu-v6e", pixels=1024 * 1024)
    assert 4 * stages.denoise_step + stages.vae_decode == pytest.approx(0.8)
    model = find("flux.1-schnell")
    assert model is not None
    assert stages.request(4) == pytest.approx(seconds_of(model, "tpu-v6e", 4)[0])


def test_time_goes_with_pictures_and_pixels():
    one = stage_seconds("tpu-v6e", pixels=1024 * 1024)
    assert stage_seconds("tpu-v6e", pixels=512 * 512).denoise_step == one.denoise_step / 4
    three = stage_seconds("tpu-v6e", pixels=1024 * 1024, pictures=3)
    assert three.denoise_step == pytest.approx(3 * one.denoise_step)
    assert three.text_encode == one.text_encode


def test_an_accelerator_without_a_published_time_is_refused():
    with pytest.raises(ValueError, match="must be one of tpu-v6e, got 'tpu-v5e'"):
        stage_seconds("tpu-v5e", pixels=1)
