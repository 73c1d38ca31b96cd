"""A stack that draws: from the example to PNG files through the real gateway."""

import io
import time

import pytest
from PIL import Image

from scripts.shared.model_client import generate_images
from scripts.terminal.console import CommandError
from tests.platform.faults.rig import Platform
from twin.host.paths import REPOSITORY

pytestmark = pytest.mark.needs_tools

FILE = REPOSITORY / "docs" / "examples" / "pictures" / "Pulumi.pictures.yaml"
MODEL = "flux-schnell"


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    made = Platform(tmp_path_factory.mktemp("pictures"), FILE, "{min: 1, max: 2}")
    try:
        made.bring_up()
        until = time.monotonic() + 120
        while True:
            try:
                generate_images(made.url, MODEL, "x")
                break
            except CommandError:
                assert time.monotonic() < until
                time.sleep(0.2)
        yield made
    finally:
        made.close()


def sides(picture):
    found = Image.open(io.BytesIO(picture.file))
    assert found.format == "PNG"
    return found.size


def test_the_gateway_gives_as_many_pictures_as_were_asked_for_of_one_seed_each(platform):
    pictures = generate_images(platform.url, MODEL, "a red bicycle", count=4, seed=7)
    assert [picture.seed for picture in pictures] == [7, 8, 9, 10]
    assert {sides(picture) for picture in pictures} == {(1024, 1024)}
    assert len({picture.file for picture in pictures}) == 4
    assert generate_images(platform.url, MODEL, "a red bicycle", seed=9)[0].file == pictures[2].file


def test_an_adapter_is_routed_by_its_name_in_the_body(platform):
    ours = generate_images(platform.url, "comic", "a red bicycle", seed=7)[0]
    assert ours.file != generate_images(platform.url, MODEL, "a red bicycle", seed=7)[0].file


def test_another_size_of_the_stack_is_drawn_and_one_that_is_not_is_refused(platform):
    assert sides(generate_images(platform.url, MODEL, "x", size="768x1344")[0]) == (768, 1344)
    with pytest.raises(CommandError, match=r"HTTP 400 .*size: must be one of"):
        generate_images(platform.url, MODEL, "x", size="512x512")
