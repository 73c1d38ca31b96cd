import csv
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
from gke_inference.catalogue.prices import price, rung_price
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
        assert row["provisioning"] in PROVISIONING
        assert row["part"] in ("accelerator", "host", "machine")
        assert row["per"] in ("chip", "machine")
        assert row["confidence"] in ("secondary", "derived", "unverified")
        assert row["source"]
        assert row["date"].startswith("2026")
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
    assert not found.is_lower_bound


def test_a_reservation_costs_what_on_demand_costs():
    reserved = price("tpu-v6e", "us-east5", "reservation", machine_type="ct6e-standard-4t")
    assert reserved == price("tpu-v6e", "us-east5", "on-demand", machine_type="ct6e-standard-4t")
    assert reserved is not None


def test_a_calendar_reservation_costs_what_flex_start_costs_and_says_it_is_derived():
    found = price("tpu7x", "us-central1", "calendar", machine_type="tpu7x-standard-4t")
    assert found is not None
    assert found.usd_per_hour == pytest.approx(24)
    assert found.confidence == "derived"


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


def test_a_machine_whose_host_price_is_unknown_has_no_price_but_a_lower_bound():
    l4 = rung("nvidia-l4", 1, "spot")
    assert rung_price(l4, "us-central1") is None
    bound = rung_price(l4, "us-central1", allow_lower_bound=True)
    assert bound is not None
    assert bound.is_lower_bound
    assert bound.usd_per_hour == pytest.approx(0.2231)


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
