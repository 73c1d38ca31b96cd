import pytest

from gke_inference.sizing.architectures import find
from planner.speed.image_speed import seconds_of, stage_seconds


@pytest.mark.parametrize(
    ("name", "steps", "published"),
    [("flux.1-schnell", 4, 0.8), ("stable-diffusion-xl", 20, 1 / 1.3597)],
)
def test_the_stages_take_what_is_published_and_are_the_planners_picture(
    name: str, steps: int, published: float
):
    model = find(name)
    assert model is not None
    stages = stage_seconds("tpu-v6e", pixels=1024 * 1024, model=model)
    left_out = stages.text_encode if name == "flux.1-schnell" else 0
    assert stages.request(steps) - left_out == pytest.approx(published)
    assert stages.request(steps) == pytest.approx(seconds_of(model, "tpu-v6e", steps)[0])


def test_a_step_without_guidance_takes_half_the_time():
    base, distilled = (
        stage_seconds("tpu-v6e", pixels=1024 * 1024, model=find(name))
        for name in ("stable-diffusion-xl", "sdxl-lightning")
    )
    assert distilled.denoise_step == pytest.approx(base.denoise_step / 2)
    assert distilled.vae_decode == base.vae_decode


def test_time_goes_with_pictures_and_pixels():
    one = stage_seconds("tpu-v6e", pixels=1024 * 1024)
    assert stage_seconds("tpu-v6e", pixels=512 * 512).denoise_step == one.denoise_step / 4
    three = stage_seconds("tpu-v6e", pixels=1024 * 1024, images=3)
    assert three.denoise_step == pytest.approx(3 * one.denoise_step)
    assert three.text_encode == one.text_encode


def test_the_stages_of_a_video_are_the_planners_video():
    wan = find("wan-2.1-1.3b")
    assert wan is not None
    stages = stage_seconds("tpu-v6e", pixels=832 * 480, frames=81, model=wan)
    assert stages.request(50) == pytest.approx(seconds_of(wan, "tpu-v6e", 50)[0])
    short = stage_seconds("tpu-v6e", pixels=832 * 480, frames=33, model=None)
    assert short.vae_decode == pytest.approx(stages.vae_decode * 33 / 81)
    assert short.denoise_step < stages.denoise_step * 33 / 81


def test_an_accelerator_without_a_published_time_is_refused():
    with pytest.raises(ValueError, match="must be one of tpu-v6e, got 'tpu-v5e'"):
        stage_seconds("tpu-v5e", pixels=1)
