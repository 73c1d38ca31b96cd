"""Regions and ladders as the page shows them."""

import pytest

from gke_inference.catalogue.accelerators import (
    Provisioning,
    accelerator,
    accelerator_names,
    gpu_counts,
)
from gke_inference.catalogue.node_networks import NodeNetwork
from gke_inference.catalogue.prices import rung_price
from gke_inference.catalogue.rung_settings import RungArgs
from gke_inference.catalogue.rungs import check_rung
from infra.estimate.stack_cost import served
from infra.plan import resolve
from planner.choice.cost import amount_of
from scripts.report.places import ladders, picture, places


def shapes():
    """Yield every shape of the catalogue as a rung."""
    for name in accelerator_names():
        chip = accelerator(name)
        for topology in dict.fromkeys(one.topology for one in chip.slices):
            yield RungArgs(accelerator=name, provisioning=Provisioning.SPOT, topology=topology)
        for count in gpu_counts(name) if chip.kind == "gpu" else ():
            yield RungArgs(accelerator=name, provisioning=Provisioning.SPOT, count=count)
            yield RungArgs(
                accelerator=name,
                provisioning=Provisioning.SPOT,
                count=count,
                hosts=2,
                network=NodeNetwork.TCP,
            )


@pytest.mark.parametrize(
    "args",
    list(shapes()),
    ids=lambda args: " ".join(map(str, args.model_dump(exclude_unset=True).values())),
)
def test_a_picture_has_as_many_chips_as_a_replica_and_fits_a_card(args):
    rung = check_rung(args)
    drawn = picture(rung)
    assert drawn.count == rung.chips
    assert drawn.columns <= 4
    assert drawn.hosts_in_a_row**2 <= max(16, 2 * drawn.hosts)


def test_a_single_host_slice_is_drawn_as_its_topology():
    rung = check_rung({"accelerator": "tpu-v6e", "provisioning": "spot", "topology": "2x4"})
    assert (picture(rung).columns, picture(rung).rows) == (4, 2)


def test_a_rung_is_offered_only_where_the_stack_has_it(stack):
    heavy = next(one for one in ladders(resolve(stack(name="prod"))) if one.name == "heavy")
    reserved = heavy.steps[0]
    assert reserved.rung.accelerator == "nvidia-h200-141gb"
    assert [offer.region for offer in reserved.offers] == ["us-central1", "europe-west4"]
    assert reserved.offers[0].zones == ("us-central1-b",)


def test_a_price_on_a_ladder_is_that_of_the_price_list(stack):
    for ladder in ladders(resolve(stack(name="prod"))):
        for step in ladder.steps:
            for offer in step.offers:
                known = rung_price(step.rung, offer.region, allow_partial=True)
                assert offer.price == amount_of(known, step.rung.label, offer.region)


def test_a_rung_without_named_zones_stands_where_catalogue_and_cluster_agree(stack):
    platform = stack(lambda data: data["regions"]["us-central1"].update(zones=["us-central1-b"]))
    on_demand = ladders(resolve(platform))[0].steps[1]
    assert on_demand.offers[0].zones == ("us-central1-b",)


def test_a_region_says_what_runs_there_and_what_stands_by(stack):
    def without_asia(data):
        data["models"]["qwen3-32b"]["regions"] = ["us-central1", "europe-west4"]

    platform = stack(without_asia, name="prod")
    first, *_, last = places(resolve(platform), served(resolve(platform)))
    assert first.cluster == "acme-prod-us-central1"
    assert [roles[0].model for roles in first.models] == list(platform.models)
    main, beside = first.models[0]
    assert (main.role, main.replicas.min, main.replicas.max) == ("serve", 2, 12)
    assert (beside.role, beside.replicas.min, beside.replicas.max) == ("standby", 1, 1)
    assert "qwen3-32b" not in [roles[0].model for roles in last.models]


def test_a_cluster_that_exists_is_managed_elsewhere(stack):
    def in_a_cluster(data):
        region = data["regions"]["us-central1"]
        del region["system_pool"], region["existing"]["subnet"]["pods"]
        del region["existing"]["subnet"]["services"]
        place = f"projects/{data['project']}/locations/us-central1"
        region["existing"]["cluster"] = f"{place}/clusters/shared"
        region["version"] = "1.37"

    (place,) = places(resolve(stack(in_a_cluster, "existing")), [])
    assert (place.cluster, place.kind) == ("shared", "standard, exists, GKE 1.37")
    assert place.system_nodes == place.maintenance == "managed elsewhere"


def test_a_ladder_whose_models_have_disks_is_only_in_the_zones_of_the_disks(stack):
    heavy = next(one for one in ladders(resolve(stack(name="prod"))) if one.name == "heavy")
    assert heavy.has_disks
    for step in heavy.steps:
        assert {offer.region: offer.zones for offer in step.offers}["us-central1"] == (
            "us-central1-b",
        )

    def shared(data):
        data["models"]["qwen3-embedding-0.6b"]["capacity"] = "heavy"

    both = next(one for one in ladders(resolve(stack(shared, "prod"))) if one.name == "heavy")
    assert not both.has_disks
    on_demand = {offer.region: offer.zones for offer in both.steps[1].offers}
    assert len(on_demand["us-central1"] or ()) == 3
