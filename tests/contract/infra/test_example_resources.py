"""What the examples are about, by the number of resources of a kind.

A short test of tests/platform deploys each of them with the real engine.
"""

import json

import pytest

from infra.reading.load import parse, platform_of
from tests.contract.infra.cloud import Deployed
from tests.shipped_stacks import EXAMPLES

BATCH = {"Bucket": 3, "HorizontalPodAutoscaler": 3, "BucketIAMMember": 4}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("personalized-images", {"Instance": 1, "PersistentVolumeClaim": 2, "LocalQueue": 1}),
        ("batch", BATCH),
        ("ray", {"RayCluster": 3, "RayClusterSet": 1, "InferencePool": 1}),
    ],
)
def test_an_example_has_what_it_is_about(
    deployed: Deployed, name: str, expected: dict[str, int]
) -> None:
    platform = parse(json.dumps(platform_of(EXAMPLES / name / f"Pulumi.{name}.yaml")))
    made = deployed(platform).counts()
    assert {kind: made.get(kind, 0) for kind in expected} == expected
