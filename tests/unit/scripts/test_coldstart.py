"""Start times of a stack, and how fast its adapters are read."""

import json

import pytest

from infra.estimate.cold_starts import options, starts
from infra.plan import resolve
from infra.reading.load import STACKS, parse, platform_of
from tests.shipped_stacks import EXAMPLES


@pytest.mark.parametrize(
    ("name", "place", "mib_per_second"),
    [
        # zonal: 260 MiB/s of the one TiB; 1,000 MB/s of each of 9,000 GiB
        ("shared-adapters", "Filestore", 260),
        ("lustre-adapters", "Managed Lustre", 8382),
    ],
)
def test_live_adapters_in_a_shared_folder_are_read_at_its_bandwidth(
    name: str, place: str, mib_per_second: int
) -> None:
    platform = parse(json.dumps(platform_of(EXAMPLES / name / f"Pulumi.{name}.yaml")))
    found = [each.adapters for each in starts(resolve(platform))]
    (source,) = {each for each in found if each is not None}
    assert (source.place, round(source.mib_per_second)) == (place, mib_per_second)


def test_adapters_in_a_bucket_have_no_such_source() -> None:
    platform = parse(json.dumps(platform_of(EXAMPLES / "batch" / "Pulumi.batch.yaml")))
    assert {each.adapters for each in starts(resolve(platform))} == {None}


def test_sources_of_weights_and_image_are_compared_with_why_a_model_cannot_have_one() -> None:
    name = "personalized-images"
    platform = parse(json.dumps(platform_of(EXAMPLES / name / f"Pulumi.{name}.yaml")))
    found = {each.what: each for each in options(resolve(platform))}
    assert [what for what, each in found.items() if each.is_used] == ["Hyperdisk ML"]
    assert {what: each.why_not for what, each in found.items() if each.why_not} == {
        "Run:ai Model Streamer": "engine diffusion reads files",
        "secondary boot disk": "GKE attaches it to GPU nodes only",
    }
    seconds = {
        what: next(stage.seconds for stage in each.start.stages if stage.name == "weights")
        for what, each in found.items()
    }
    # 29 GB; the three replicas that can start at once share 2,400 MiB/s of the disk
    assert round(seconds["Hyperdisk ML"], 1) == round(29 / (2400 * 2**20 / 1e9 / 3), 1)
    assert round(seconds["Cloud Storage FUSE"], 1) == round(29 / 0.5, 1)
    assert round(seconds["Cloud Storage FUSE, cached"], 1) == round(29 / 1.0, 1)
    assert seconds["secondary boot disk"] == seconds["Hyperdisk ML"], "it has images alone"


def test_a_boot_disk_with_images_and_the_streamer_are_sources_on_gpu() -> None:
    platform = parse(json.dumps(platform_of(STACKS / "Pulumi.prod.yaml")))
    found = [each for each in options(resolve(platform)) if "nvidia" in each.rung]
    assert {each.why_not for each in found} == {""}
    ours = [each for each in found if (each.model, each.region) == ("llama-3.1-8b", "us-central1")]
    used = {each.what for each in ours if each.is_used}
    assert used == {"Run:ai Model Streamer", "secondary boot disk"}
