import csv
import re
from pathlib import Path
from typing import Any

import pytest

import gke_inference
from gke_inference.catalogue.accelerators import (
    PROVISIONING,
    accelerator,
    accelerator_names,
    machine,
)
from gke_inference.catalogue.platform_prices import machine_price, unit_price
from gke_inference.catalogue.prices import committed_price, price, rung_price
from gke_inference.catalogue.rungs import check_rung

DATA = Path(gke_inference.__file__).parent / "catalogue" / "data"


def rung(accelerator, shape, provisioning="on-demand"):
    field = {"topology": shape} if isinstance(shape, str) else {"count": shape}
    args: Any = {"accelerator": accelerator, "provisioning": provisioning, **field}
    return check_rung(args)


def test_every_price_has_a_source_a_date_and_a_confidence():
    with (DATA / "prices.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 200
    for row in rows:
        assert row["accelerator"] in accelerator_names()
        assert row["provisioning"] in (*PROVISIONING, "committed-1y", "committed-3y")
        assert row["part"] in ("accelerator", "host", "machine")
        assert row["per"] in ("chip", "machine")
        assert row["confidence"] in ("secondary", "derived", "unverified")
        assert row["source"]
        assert re.fullmatch(r"202[56](-\d\d-\d\d)?", row["date"])
        assert 0 < float(row["usd_per_hour"]) < 200
        if row["machine_type"]:
            assert machine(row["accelerator"], row["machine_type"]).chips > 0


def test_no_price_is_listed_twice():
    with (DATA / "prices.csv").open() as file:
        keys = [tuple(row.values())[:5] for row in csv.DictReader(file)]
    assert len(set(keys)) == len(keys)


def test_a_tpu_slice_costs_its_chips():
    found = rung_price(rung("tpu-v6e", "4x4"), "us-east5")
    assert found is not None
    assert found.usd_per_hour == pytest.approx(2.7 * 16)
    assert found.confidence == "secondary"
    assert not found.lacks_host


def test_a_reservation_costs_what_on_demand_costs():
    reserved = price("tpu-v6e", "us-east5", "reservation", machine_type="ct6e-standard-4t")
    assert reserved == price("tpu-v6e", "us-east5", "on-demand", machine_type="ct6e-standard-4t")
    assert reserved is not None


def test_a_calendar_reservation_of_tpus_costs_thirty_percent_less_than_on_demand():
    found = price("tpu-v6e", "us-central1", "calendar", machine_type="ct6e-standard-4t")
    assert found is not None
    assert found.usd_per_hour == pytest.approx(0.7 * 4 * 2.7)
    assert found.confidence == "derived"
    assert "about-tpu-reservations" in found.source


def test_a_calendar_reservation_of_gpus_costs_what_flex_start_costs_and_says_it_is_derived():
    found, flex = (
        price(
            "nvidia-h100-80gb", "us-central1", way, machine_type="a3-highgpu-8g", allow_partial=True
        )
        for way in ("calendar", "flex-start")
    )
    assert found is not None
    assert flex is not None
    assert found.usd_per_hour == flex.usd_per_hour
    assert found.confidence == "derived"


@pytest.mark.parametrize(("years", "usd"), [(1, 1.89), (3, 1.215)])
def test_a_commitment_for_tpus_costs_the_published_share_of_on_demand(years, usd):
    found = committed_price(rung("tpu-v6e", "2x2"), "us-central1", years)
    assert found is not None
    assert found.usd_per_hour == pytest.approx(4 * usd)
    assert found.confidence == "derived"


def test_a_published_commitment_goes_before_the_general_discount():
    found = committed_price(rung("tpu7x", "2x2x1"), "us-central1", 3)
    assert found is not None
    assert found.confidence == "secondary"


def test_a_gpu_machine_costs_its_gpus_and_its_host():
    found = rung_price(rung("nvidia-h100-80gb", 8), "us-east4")
    assert found is not None
    assert found.usd_per_hour == pytest.approx(9.79655 * 8 + 9.46006)


def test_a_smaller_machine_of_the_same_make_carries_its_share_of_the_host():
    found = rung_price(rung("nvidia-h100-80gb", 2, "spot"), "us-east4")
    assert found is not None
    assert found.usd_per_hour == pytest.approx(2.2356 * 2 + 2.15966 / 4)


def test_a_machine_with_a_price_of_its_own_costs_that():
    found = price("nvidia-l4", "us-central1", "on-demand", machine_type="g2-standard-12")
    assert found is not None
    assert found.usd_per_hour == pytest.approx(1.00041)


def test_twice_the_machine_costs_twice_and_says_it_is_derived():
    found = price("nvidia-rtx-pro-6000", "us-central1", "on-demand", machine_type="g4-standard-96")
    assert found is not None
    assert found.usd_per_hour == pytest.approx(9.0)
    assert found.confidence == "derived"


def test_a_machine_whose_host_price_is_unknown_has_no_price_but_that_of_its_accelerators():
    h100 = rung("nvidia-h100-80gb", 2, "flex-start")
    assert rung_price(h100, "us-central1") is None
    part = rung_price(h100, "us-central1", allow_partial=True)
    assert part is not None
    assert part.lacks_host
    assert part.usd_per_hour == pytest.approx(2 * 4.20076)


def test_a_machine_without_a_price_of_its_own_costs_its_share_of_one_of_the_same_make():
    found = rung_price(rung("nvidia-l4", 1, "spot"), "europe-west4")
    assert found is not None
    assert found.usd_per_hour == pytest.approx(2.523712 / 4, abs=1e-5)
    assert (found.confidence, found.date) == ("derived", "2026-08-20")


@pytest.mark.parametrize(
    ("accelerator", "shape", "region", "one_year", "three_years"),
    [
        ("nvidia-l4", 1, "us-central1", 1840.36578168 / 730 / 4, 1314.5469014 / 730 / 4),
        ("nvidia-h100-80gb", 8, "us-central1", 44810.08066464 / 730, 28370.99821392 / 730),
        ("tpu7x", "2x2x2", "us-central1", 8.4 * 8, 5.4 * 8),
    ],
)
def test_a_commitment_has_the_price_of_all_hosts(accelerator, shape, region, one_year, three_years):
    found = [committed_price(rung(accelerator, shape), region, years) for years in (1, 3)]
    assert [one and one.usd_per_hour for one in found] == [
        pytest.approx(one_year, rel=1e-4),
        pytest.approx(three_years, rel=1e-4),
    ]


def test_a_commitment_that_nobody_publishes_has_no_price():
    assert committed_price(rung("nvidia-l4", 1), "mars-north1", 3) is None


def test_every_price_beside_accelerators_has_a_unit_a_source_a_date_and_a_confidence():
    with (DATA / "platform_prices.csv").open() as file:
        rows = list(csv.DictReader(file))
    keys = [(row["item"], row["region"]) for row in rows]
    assert len(set(keys)) == len(keys)
    for row in rows:
        assert row["per"] in ("hour", "GiB", "GiB-month", "MiB/s-month", "million")
        assert row["confidence"] in ("documented", "secondary", "derived", "unverified")
        assert row["source"]
        assert re.fullmatch(r"2026(-\d\d-\d\d)?", row["date"])
        assert row["note"] or row["date"] != "2026"
        assert 0 < float(row["usd"]) < 2


def test_a_price_for_all_regions_counts_where_a_region_has_none_of_its_own():
    fee = unit_price("cluster-fee", "mars-north1")
    assert fee is not None
    assert (fee.usd, fee.per) == (0.1, "hour")
    assert unit_price("gcs-standard", "mars-north1") is None


def test_the_price_of_traffic_to_the_internet_falls_with_the_amount_in_every_region():
    with (DATA / "platform_prices.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["item"].startswith("internet-egress")]
    regions = {row["region"] for row in rows}
    assert "asia-northeast1" not in regions  # the source has a second tier above the first
    assert len(rows) == 3 * len(regions)
    for region in regions:
        tiers = [float(row["usd"]) for row in rows if row["region"] == region]
        assert tiers == sorted(tiers, reverse=True)


def test_a_machine_costs_by_its_vcpus_within_its_shape_and_nothing_is_guessed_beyond():
    listed, half = (machine_price(name, "us-east4") for name in ("e2-standard-8", "e2-standard-4"))
    assert listed is not None
    assert half is not None
    assert listed.usd == pytest.approx(0.30188328)
    assert half.usd == pytest.approx(0.15094164)
    assert half.confidence == "derived"
    committed = machine_price("e2-standard-16", "us-east4", 3)
    assert committed is not None
    assert committed.usd == pytest.approx(2 * 99.16864288 / 730)
    assert machine_price("e2-highmem-8", "us-east4") is None
    assert machine_price("e2-micro", "us-east4") is None
    assert machine_price("e2-standard-8", "mars-north1") is None


def test_an_unknown_price_is_none_and_never_a_guess():
    assert rung_price(rung("tpu-v6e", "2x2"), "mars-north1") is None
    assert rung_price(rung("tpu-v6e", "2x2", "flex-start"), "us-east5") is None


def test_a_provisioning_that_does_not_exist_has_no_price():
    with pytest.raises(ValueError, match="provisioning must be one of"):
        price("tpu-v6e", "us-east5", "cheap", machine_type="ct6e-standard-4t")


def test_every_default_machine_of_a_gpu_is_one_of_its_own():
    for name in accelerator_names():
        for entry in accelerator(name).machines:
            assert machine(name, entry.name) == entry
