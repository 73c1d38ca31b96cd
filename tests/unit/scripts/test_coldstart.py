"""Start times of a stack, and how fast its adapters are read."""

import json

import pytest

from infra.estimate.cold_starts import starts
from infra.plan import resolve
from infra.reading.load import parse, platform_of
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
