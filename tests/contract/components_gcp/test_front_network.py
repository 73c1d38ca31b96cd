"""The VPC from which a global front connects to published gateways."""

from ipaddress import IPv4Network
from itertools import combinations
from typing import Any

import pulumi
import pytest

from gke_inference import FrontNetwork
from gke_inference.catalogue.accelerators import accelerator_names, regions_of
from gke_inference.front.front_network import front_range


def build(recorder: Any, *regions: str, name: str = "acme-front") -> Any:
    def program() -> Any:
        made = FrontNetwork("front", {"network_name": name, "regions": list(regions)})
        return pulumi.Output.all(made.network_id, made.subnetworks)

    return recorder.run(program)


def test_a_front_has_a_network_with_one_subnet_in_each_region_and_nothing_else(recorder):
    assert build(recorder, "us-central1", "europe-west4") == [
        "front-id",
        {"europe-west4": "front-europe-west4-id", "us-central1": "front-us-central1-id"},
    ]
    counts = {kind: n for kind, n in recorder.counts().items() if kind != "FrontNetwork"}
    assert counts == {"Network": 1, "Subnetwork": 2}
    made = recorder.all("gcp:compute/subnetwork:Subnetwork")
    assert [(each.inputs["name"], each.inputs["network"]) for each in made] == [
        ("acme-front-europe-west4", "front-id"),
        ("acme-front-us-central1", "front-id"),
    ]
    assert recorder.one("gcp:compute/network:Network").inputs["autoCreateSubnetworks"] is False


def test_the_range_of_a_region_does_not_depend_on_the_other_regions(recorder):
    build(recorder, "us-central1", "europe-west4", "asia-east1")
    found = {
        each.inputs["region"]: each.inputs["ipCidrRange"]
        for each in recorder.all("gcp:compute/subnetwork:Subnetwork")
    }
    assert found["us-central1"] == front_range("us-central1")


def test_no_two_regions_with_accelerators_have_one_range():
    regions = sorted({region for name in accelerator_names() for region in regions_of(name)})
    ranges = [IPv4Network(front_range(region)) for region in regions]
    assert len(ranges) > 20
    assert {each.prefixlen for each in ranges} == {28}
    assert not [pair for pair in combinations(ranges, 2) if pair[0].overlaps(pair[1])]


@pytest.mark.parametrize(
    ("regions", "name", "message"),
    [
        ([], "acme-front", "regions: must have at least 1 entry, got 0"),
        (["us-central1"], "a" * 60, "networkName: must be 1 to 63 characters"),
    ],
)
def test_a_front_network_that_cannot_exist_is_refused(recorder, regions, name, message):
    with pytest.raises(pulumi.InputPropertyError) as refused:
        build(recorder, *regions, name=name)
    assert message in f"{refused.value.property_path}: {refused.value.reason}"
    assert recorder.all("gcp:compute/network:Network") == []
