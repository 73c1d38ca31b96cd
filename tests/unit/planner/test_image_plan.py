"""Hardware for models of images and videos."""

import pytest

from gke_inference.sizing.architectures import find
from gke_inference.sizing.image_memory import (
    VIDEO_ROOM_GIB,
    check_copies_fit,
    served_gib,
    video_room_gib,
)
from planner.choice.image_plan import image_choices, usd_per_thousand
from planner.speed.image_speed import MEASURED_SPREAD, flops, reached, seconds_of, spread, work


def model(name: str):
    found = find(name)
    assert found is not None
    return found


def test_a_published_picture_takes_what_was_published():
    seconds, doubt, _ = seconds_of(model("flux.1-schnell"), "tpu-v6e", 4)
    assert seconds == pytest.approx(0.82, rel=1e-3)
    assert doubt == MEASURED_SPREAD


def test_steps_cost_in_proportion():
    flux = model("flux.1-dev")
    assert flops(flux, 28) == 7 * flops(flux, 4)


def test_hardware_without_a_published_picture_has_a_wider_interval():
    _, doubt, source = seconds_of(model("flux.1-dev"), "nvidia-h100-80gb", 28)
    assert doubt == spread() > MEASURED_SPREAD
    assert "of peak" in source


def test_the_cheapest_picture_stands_first_and_small_chips_are_not_offered():
    found = image_choices(model("flux.1-dev"), 2.0, regions=["us-central1"])
    costs = [one.usd_per_thousand for one in found]
    assert costs == sorted(costs)
    assert {"nvidia-l4", "tpu-v5e"}.isdisjoint(one.accelerator for one in found)


def test_flux_is_offered_on_a_v6e_as_the_server_of_pictures_loads_it():
    flux = model("flux.1-schnell")
    assert served_gib(flux) == pytest.approx(27.0, abs=0.05)  # the example stack's 14.5 x 16 bit
    found = image_choices(flux, 2.0, regions=["us-central1"])
    assert found[0].accelerator == "tpu-v6e"
    assert check_copies_fit("tpu-v6e", served_gib(flux)) is None
    assert check_copies_fit("tpu-v6e", 31.4) is not None  # with its encoder in 16 bits


def test_a_thousand_pictures_cost_their_chip_time():
    assert usd_per_thousand(0.5, 3.6) == pytest.approx(0.5)
    assert usd_per_thousand(0.5, 3.6, utilisation=0.25) == pytest.approx(2.0)


@pytest.mark.parametrize("share", [0, -1, 1.1])
def test_a_share_of_time_that_cannot_be_is_refused(share: float):
    with pytest.raises(ValueError, match="utilisation: must be above 0"):
        usd_per_thousand(1, 1, share)


def test_a_model_of_text_makes_no_pictures():
    with pytest.raises(ValueError, match="must be an image model"):
        image_choices(model("llama-3.1-8b"), 1.0)


def test_a_model_without_a_pipeline_is_marked_as_served_by_no_engine():
    found = image_choices(model("flux.2-klein-4b"), 2.0, regions=["us-central1"])
    assert found
    assert not any(one.is_served for one in found)


def test_stable_diffusion_xl_fits_chips_of_16_gib_and_takes_the_published_time():
    sdxl = model("stable-diffusion-xl")
    assert check_copies_fit("tpu-v5e", served_gib(sdxl)) is None
    seconds, doubt, source = seconds_of(sdxl, "tpu-v5e", 20)
    assert (round(seconds, 2), doubt) == (2.58, MEASURED_SPREAD)
    assert source.startswith("MLPerf Inference v4.1")


def test_a_distilled_model_has_one_pass_for_each_of_its_four_steps():
    assert flops(model("stable-diffusion-xl"), 20) == 10 * flops(model("sdxl-lightning"), 4)


@pytest.mark.parametrize("name", ["flux.1-schnell", "stable-diffusion-xl"])
def test_images_are_served_on_tpu_alone(name: str):
    found = image_choices(model(name), 2.0, regions=["us-central1"])
    served = {one.accelerator for one in found if one.is_served}
    others = {one.accelerator for one in found} - served
    assert {name.partition("-")[0][:3] for name in served} == {"tpu"}
    assert others
    assert all(name.startswith("nvidia") for name in others)


def test_a_video_without_a_published_time_takes_the_share_of_peak_of_another_video():
    wan = model("wan-2.1-1.3b")
    (share,) = reached("tpu-v6e", is_video=True)
    assert share == pytest.approx(0.282, abs=0.001)  # 251.45 s on eight chips
    seconds, doubt, source = seconds_of(wan, "tpu-v6e", 50)
    assert seconds == pytest.approx(flops(wan, 50) / 918e12 / share)
    assert (doubt, source[:11]) == (spread(), "28% of peak")
    assert seconds_of(model("wan-2.2-a14b"), "nvidia-h100-80gb", 40)[0] > seconds


def test_a_video_of_fewer_frames_costs_less_than_its_share_of_frames():
    wan = model("wan-2.1-1.3b")
    assert work(wan, 832 * 480, 81) == pytest.approx(1)
    linear = 8.5e13 / 2.83e14  # what is not attention among the tokens
    share = 9 / 21  # latent frames
    assert work(wan, 832 * 480, 33) == pytest.approx(
        linear * share + (1 - linear) * share**2, rel=0.01
    )


def test_a_video_model_fits_chips_that_hold_it_beside_the_room_of_its_largest_video():
    wan = model("wan-2.1-1.3b")
    found = {one.accelerator for one in image_choices(wan, 0.1) if one.is_served}
    assert "tpu-v6e" in found
    assert "tpu-v5e" not in found
    assert video_room_gib(["1280x720"], [81]) > video_room_gib([], []) == VIDEO_ROOM_GIB


def test_a_choice_says_whether_its_time_was_published():
    found = image_choices(model("flux.1-schnell"), 2.0)
    measured = {one.accelerator for one in found if one.is_measured}
    assert "tpu-v6e" in measured
    assert "nvidia-h100-80gb" in {one.accelerator for one in found} - measured
