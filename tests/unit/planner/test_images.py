import pytest

from planner.images import StageSeconds, cost_of_thousand, stage_seconds


def test_four_steps_on_four_chips_take_what_is_published():
    assert 4 * stage_seconds("tpu-v6e", pixels=1024 * 1024).denoise_step == pytest.approx(0.8)


def test_time_goes_with_pictures_and_pixels():
    one = stage_seconds("tpu-v6e", pixels=1024 * 1024)
    assert stage_seconds("tpu-v6e", pixels=512 * 512).denoise_step == one.denoise_step / 4
    three = stage_seconds("tpu-v6e", pixels=1024 * 1024, pictures=3)
    assert three.denoise_step == pytest.approx(3 * one.denoise_step)
    assert three.text_encode == one.text_encode


def test_a_thousand_pictures_cost_their_chip_time():
    half_a_second = StageSeconds(text_encode=0.1, denoise_step=0.08, vae_decode=0.08)
    found = cost_of_thousand(steps=4, seconds=half_a_second, usd_per_chip_hour=3.6)
    assert found.usd == pytest.approx(0.5)
    idle = cost_of_thousand(steps=4, seconds=half_a_second, usd_per_chip_hour=3.6, utilisation=0.25)
    assert idle.usd == pytest.approx(2.0)
    assert any("25%" in line for line in idle.assumptions())


@pytest.mark.parametrize("share", [0, -1, 1.1])
def test_a_share_of_time_that_cannot_be_is_refused(share):
    seconds = stage_seconds("tpu-v6e", pixels=1)
    with pytest.raises(ValueError, match="utilisation: must be above 0"):
        cost_of_thousand(steps=4, seconds=seconds, usd_per_chip_hour=1, utilisation=share)


def test_an_accelerator_without_a_published_time_is_refused():
    with pytest.raises(ValueError, match="must be one of tpu-v6e, got 'tpu-v5e'"):
        stage_seconds("tpu-v5e", pixels=1)
