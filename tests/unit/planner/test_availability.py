"""Failure modes of each provisioning model."""

from gke_inference.catalogue.accelerators import PROVISIONING
from planner.choice.availability import availability, notes


def test_every_way_to_buy_can_fail_in_a_way_that_is_known():
    assert len({availability(way) for way in PROVISIONING}) == len(PROVISIONING)


def test_notes_name_the_zones_that_have_the_accelerator():
    assert "zones a, b, c" in " ".join(notes("nvidia-l4", "us-central1", "spot"))


def test_notes_say_where_to_read_about_zones_that_nobody_lists():
    assert "zones not listed (docs/provisioning-types.md)" in notes(
        "nvidia-rtx-pro-6000", "us-central1", "on-demand"
    )
