from typing import Any

import pulumi
import pytest

from gke_inference.base.inputs import rung_of
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.rungs import Rung
from gke_inference.catalogue.rungs import check_rung as typed_check_rung

V6E = {"accelerator": "tpu-v6e", "topology": "2x2", "provisioning": "on-demand"}
WEEK = {"start": "2027-01-11T08:00:00Z", "end": "2027-01-18T08:00:00Z"}
BOOKED = {**V6E, "provisioning": "calendar", "reservation": "launch-week"}
REQUESTED = {
    **BOOKED,
    "reservation_zones": ["us-east5-b"],
    "reservation_period": WEEK,
    "reservation_machines": 2,
}
L4 = {"accelerator": "nvidia-l4", "count": 1, "provisioning": "spot"}
FLEX = {"provisioning": "flex-start"}
RESERVED = {"provisioning": "reservation", "reservation": "v6e-prod"}


def check_rung(rung: Any, *rest: Any, **more: Any) -> Rung:
    return typed_check_rung(rung, *rest, **more)


def check_rung_of(rung: Any, where: str) -> Rung:
    return rung_of(rung, where)


def test_a_tpu_rung_knows_its_machine_memory_and_devices():
    rung = check_rung({**V6E, "topology": "4x4"})
    assert (rung.machine_type, rung.hosts, rung.chips_per_node) == ("ct6e-standard-4t", 4, 4)
    assert (rung.chips, rung.memory_gib, rung.devices) == (16, 512, 16)
    assert rung.is_multi_host
    assert rung.label == "tpu-v6e 4x4 on-demand"


def test_a_tpu7x_chip_is_two_devices():
    rung = check_rung({**V6E, "accelerator": "tpu7x", "topology": "2x2x1"})
    assert (rung.chips, rung.devices, rung.memory_gib) == (4, 8, 768)


def test_a_gpu_rung_knows_its_machine():
    rung = check_rung({**L4, "count": 4})
    assert (rung.machine_type, rung.hosts, rung.memory_gib) == ("g2-standard-48", 1, 96)
    assert rung.topology is None
    assert rung.label == "nvidia-l4 x4 spot"


def test_a_family_with_one_shape_needs_no_count():
    assert check_rung({"accelerator": "nvidia-b200", "provisioning": "spot"}).chips_per_node == 8


def test_a_machine_type_gives_the_count():
    rung = check_rung(
        {"accelerator": "nvidia-l4", "machine_type": "g2-standard-24", "provisioning": "spot"}
    )
    assert rung.chips_per_node == 2


def test_numbers_may_come_as_other_languages_send_them():
    assert check_rung({**L4, "count": 2.0}).chips_per_node == 2
    assert check_rung({**V6E, **FLEX, "max_run_hours": 12.0}).max_run_hours == 12


def test_flex_start_lives_a_week_unless_said_otherwise():
    assert check_rung({**V6E, **FLEX}).max_run_hours == 168
    assert check_rung(V6E).max_run_hours is None


def test_a_reservation_keeps_its_name_project_and_zones():
    rung = check_rung(
        {
            **V6E,
            **RESERVED,
            "reservation_project": "acme-shared",
            "reservation_zones": ["us-east5-b"],
        },
        region="us-east5",
    )
    assert rung.reservation == "v6e-prod"
    assert rung.reservation_project == "acme-shared"
    assert rung.reservation_zones == ("us-east5-b",)


def test_a_calendar_rung_is_a_named_reservation():
    rung = check_rung({**V6E, "provisioning": "calendar", "reservation": "load-test"})
    assert rung.reservation == "load-test"


def test_a_period_is_known_in_utc_with_the_machines_to_reserve():
    rung = check_rung(REQUESTED, region="us-east5")
    assert rung.reservation_period is not None
    assert (rung.reservation_period.hours, rung.reservation_period.label) == (
        168,
        "2027-01-11 to 2027-01-18",
    )
    assert rung.reservation_machines == 2


def test_calendar_mode_has_its_own_accelerators_and_zones():
    booked = {**BOOKED, "reservation_zones": ["us-central1-b"]}
    with pytest.raises(InputError, match=r"by calendar \(none in us-central1\)"):
        check_rung(booked)
    with pytest.raises(InputError, match="offered in us-central1 by calendar, got tpu-v6e, which"):
        check_rung(BOOKED, region="us-central1")
    small = {"accelerator": "nvidia-l4", "count": 1, "provisioning": "calendar"}
    with pytest.raises(InputError, match="must be reservation or on-demand or flex-start or spot"):
        check_rung({**small, "reservation": "week"})
    newest = {"accelerator": "tpu7x", "topology": "2x2x1", "reservation_zones": ["us-central1-c"]}
    with pytest.raises(InputError, match="Pulumi's provider reserves only tpu-v5e and tpu-v6e"):
        check_rung({**REQUESTED, **newest})


def test_a_zone_newer_than_the_catalogue_can_be_trusted():
    new = {**V6E, "zones": ["us-east5-z"], "allow_unlisted_zones": True}
    assert check_rung(new, region="us-east5").zones == ("us-east5-z",)


def test_a_single_tenant_zone_takes_the_reservation_of_its_tenant():
    reserved = {**V6E, **RESERVED, "reservation_zones": ["us-east5-c"]}
    assert check_rung(reserved, region="us-east5").reservation_zones == ("us-east5-c",)


def test_a_zone_may_be_single_tenant_but_for_spot():
    spot = {**V6E, "provisioning": "spot"}
    assert check_rung({**spot, "zones": ["us-west1-c"]}, region="us-west1").zones == ("us-west1-c",)
    with pytest.raises(InputError, match="us-west1-c is single-tenant: only reservation and spot"):
        check_rung(V6E, region="us-west1")


@pytest.mark.parametrize("provisioning", ["flex-start", "spot"])
def test_eight_and_fewer_h100_are_there_as_they_are_sold(provisioning):
    few = {"accelerator": "nvidia-h100-80gb", "count": 4, "provisioning": provisioning}
    assert check_rung(few).machine_type == "a3-highgpu-4g"
    assert check_rung({**few, "count": 8, "provisioning": "on-demand"}).chips == 8


def test_any_zone_passes_where_the_catalogue_knows_only_the_region():
    mega = {"accelerator": "nvidia-h100-mega-80gb", "provisioning": "spot"}
    assert check_rung({**mega, "zones": ["us-east5-a"]}).zones == ("us-east5-a",)


REFUSED = {
    "an unknown accelerator": ({**V6E, "accelerator": "tpu-v6"}, "accelerator", "did you mean"),
    "an unknown provisioning": ({**V6E, "provisioning": "cheap"}, "provisioning", "got 'cheap'"),
    "a topology that does not exist": ({**V6E, "topology": "2x3"}, "topology", "1x1, 2x2, 2x4"),
    "a tpu without a topology": (
        {"accelerator": "tpu-v6e", "provisioning": "spot"},
        "topology",
        "must be one of 1x1",
    ),
    "a topology on a gpu": ({**L4, "topology": "2x2"}, "topology", "'count' determines the shape"),
    "a count on a tpu": ({**V6E, "count": 4}, "count", "'topology' determines the shape"),
    "no count on a gpu": (
        {"accelerator": "nvidia-l4", "provisioning": "spot"},
        "count",
        "(1, 2, 4, 8), got none",
    ),
    "a count no node has": ({**L4, "count": 3}, "count", "(1, 2, 4, 8), got 3"),
    "half a gpu": ({**L4, "count": 0.5}, "count", "got 0.5"),
    "a count that is true": ({**L4, "count": True}, "count", "got true"),
    "a machine with another count": (
        {**L4, "count": 2, "machine_type": "g2-standard-48"},
        "count",
        "must be 4, the GPUs of a g2-standard-48, got 2",
    ),
    "a machine of another chip": (
        {**L4, "machine_type": "a3-highgpu-1g"},
        "machine_type",
        "must be a machine type of nvidia-l4",
    ),
    "a machine that cannot make the slice": (
        {**V6E, "machine_type": "ct6e-standard-8t"},
        "machine_type",
        "must be ct6e-standard-4t",
    ),
    "flex-start with a reservation": (
        {**V6E, **FLEX, "reservation": "v6e-prod"},
        "reservation",
        "must not be set with flex-start, got 'v6e-prod'",
    ),
    "spot with a reservation": (
        {**L4, "reservation": "l4"},
        "reservation",
        "must not be set with spot",
    ),
    "on-demand with the project of a reservation": (
        {**V6E, "reservation_project": "acme-shared"},
        "reservation_project",
        "must not be set with on-demand",
    ),
    "spot with the zones of a reservation": (
        {**L4, "reservation_zones": ["us-east1-b"]},
        "reservation_zones",
        "must not be set with spot",
    ),
    "a reservation without a name": (
        {**V6E, "provisioning": "reservation"},
        "reservation",
        "must be the name of a reservation when provisioning is reservation, got none",
    ),
    "a calendar without a name": (
        {**V6E, "provisioning": "calendar", "reservation": ""},
        "reservation",
        "must be lowercase letters, digits and hyphens",
    ),
    "a period with on-demand": (
        {**V6E, "reservation_period": WEEK},
        "reservation_period",
        "must not be set with on-demand: only calendar has a period",
    ),
    "a period whose end is before its start": (
        {**BOOKED, "reservation_period": {**WEEK, "end": "2027-01-10T08:00:00Z"}},
        "reservation_period.end",
        "must be after start (2027-01-11T08:00:00Z), got '2027-01-10T08:00:00Z'",
    ),
    "a period of half a day": (
        {**BOOKED, "reservation_period": {**WEEK, "end": "2027-01-11T20:00:00Z"}},
        "reservation_period.end",
        "must be 1 to 90 days after start (2027-01-11T08:00:00Z), got '2027-01-11T20:00:00Z', 0.5",
    ),
    "a period of 91 days": (
        {**BOOKED, "reservation_period": {**WEEK, "end": "2027-04-12T08:00:00Z"}},
        "reservation_period.end",
        "must be 1 to 90 days",
    ),
    "a day that does not exist": (
        {**BOOKED, "reservation_period": {**WEEK, "start": "2027-02-30T08:00:00Z"}},
        "reservation_period.start",
        "must be a time that exists, got '2027-02-30T08:00:00Z'",
    ),
    "a day without a time": (
        {**BOOKED, "reservation_period": {**WEEK, "start": "2027-01-11"}},
        "reservation_period.start",
        "must be a quoted time in UTC such as 2027-01-11T08:00:00Z, got '2027-01-11'",
    ),
    "machines to reserve without a period": (
        {**BOOKED, "reservation_machines": 2},
        "reservation_machines",
        "must be unset without 'reservation_period'",
    ),
    "machines to reserve in two zones": (
        {**REQUESTED, "reservation_zones": ["us-east5-a", "us-east5-b"]},
        "reservation_zones",
        "must be one zone for the reservation of reservation_machines",
    ),
    "machines to reserve in another project": (
        {**REQUESTED, "reservation_project": "acme-shared"},
        "reservation_project",
        "must be unset with reservation_machines",
    ),
    "machines for half a slice": (
        {**REQUESTED, "topology": "4x4", "reservation_machines": 6},
        "reservation_machines",
        "must be a multiple of 4, the hosts of a replica, got 6",
    ),
    "a reservation with zones of its own": (
        {**V6E, **RESERVED, "zones": ["us-east5-b"]},
        "zones",
        "use 'reservation_zones'",
    ),
    "run hours without flex-start": (
        {**V6E, "max_run_hours": 24},
        "max_run_hours",
        "must not be set with on-demand",
    ),
    "more than a week": ({**V6E, **FLEX, "max_run_hours": 169}, "max_run_hours", "1 to 168"),
    "no time at all": ({**V6E, **FLEX, "max_run_hours": 0}, "max_run_hours", "got 0"),
    "a zone of another region": (
        {**V6E, "zones": ["us-central1-a"]},
        "zones",
        "must be zones of us-east5, got 'us-central1-a'",
    ),
    "a zone without the chip": (
        {**V6E, "zones": ["us-east5-d"]},
        "zones",
        "tpu-v6e by on-demand (us-east5-a, us-east5-b), got 'us-east5-d'",
    ),
    "a region without the chip": (
        L4,
        "accelerator",
        "offered in us-east5, got nvidia-l4, which is in",
    ),
    "a zone of one tenant": (
        {**V6E, "zones": ["us-east5-c"]},
        "zones",
        "got 'us-east5-c'; us-east5-c is single-tenant: only reservation there",
    ),
    "flex-start where there is none": (
        {**V6E, **FLEX, "zones": ["us-east5-b"]},
        "zones",
        "must be zones with tpu-v6e by flex-start (us-east5-a), got 'us-east5-b'",
    ),
    "an on-demand machine that is not sold": (
        {"accelerator": "nvidia-h100-80gb", "count": 2, "provisioning": "on-demand"},
        "provisioning",
        "must be flex-start or spot for a3-highgpu-2g, got 'on-demand'",
    ),
    "an A3 Ultra machine on demand": (
        {"accelerator": "nvidia-h200-141gb", "count": 8, "provisioning": "on-demand"},
        "provisioning",
        "must be reservation or flex-start or spot or calendar for a3-ultragpu-8g, got 'on-demand'",
    ),
    "no zones in a list": ({**V6E, "zones": []}, "zones", "must have at least 1 entry, got 0"),
    "a zone twice": (
        {**V6E, "zones": ["us-east5-a", "us-east5-a"]},
        "zones",
        "must be a list of different names",
    ),
    "a pool that is not a list": ({**V6E, "node_pools": "v6e"}, "node_pools", "got 'v6e'"),
    "a pool without a name": ({**V6E, "node_pools": [""]}, "node_pools", "different names"),
}


def test_a_rung_without_an_accelerator_is_refused():
    with pytest.raises(InputError) as refused:
        check_rung({"provisioning": "spot"}, "capacity.chat.rungs[0]")
    assert str(refused.value) == (
        "capacity.chat.rungs[0].accelerator: must be set, or 'machine_type' for nodes with"
        " processors alone, got none"
    )


@pytest.mark.parametrize(("rung", "field", "words"), REFUSED.values(), ids=REFUSED)
def test_a_broken_rule_is_refused_with_field_rule_and_value(rung, field, words):
    with pytest.raises(InputError) as refused:
        check_rung(rung, "capacity.chat.rungs[0]", region="us-east5")
    assert refused.value.path == f"capacity.chat.rungs[0].{field}"
    assert str(refused.value).startswith(f"capacity.chat.rungs[0].{field}: must ")
    assert words in str(refused.value)


def test_pools_made_by_hand_are_kept_by_name():
    assert check_rung({**V6E, "node_pools": ["v6e-a", "v6e-b"]}).node_pools == ("v6e-a", "v6e-b")


def test_a_component_names_the_field_as_other_languages_spell_it():
    with pytest.raises(pulumi.InputPropertyError) as refused:
        check_rung_of({**V6E, "max_run_hours": 3}, "rungs[1]")
    assert refused.value.property_path == "rungs[1].maxRunHours"
    assert refused.value.reason == "must not be set with on-demand, got 3"


def test_a_rule_at_the_top_has_no_path_before_it():
    with pytest.raises(InputError, match=r"^topology: must be"):
        check_rung({**V6E, "topology": "9x9"})


SEVERAL: dict[str, Any] = {"count": 8, "hosts": 2, "provisioning": "spot"}


@pytest.mark.parametrize(
    ("rung", "network"),
    [
        ({**SEVERAL, "accelerator": "nvidia-h200-141gb"}, "rdma"),
        ({**SEVERAL, "accelerator": "nvidia-b200", "network": "tcp"}, "tcp"),
        ({**SEVERAL, "accelerator": "nvidia-h100-80gb", "network": "tcp"}, "tcp"),
        ({"accelerator": "nvidia-h200-141gb", "provisioning": "spot"}, None),
        ({"accelerator": "nvidia-h200-141gb", "provisioning": "spot", "network": "rdma"}, "rdma"),
        ({**V6E, "topology": "4x4"}, None),
    ],
)
def test_hosts_of_one_replica_are_connected_by_rdma_where_the_machine_has_it(rung, network):
    assert check_rung(rung).network == network


@pytest.mark.parametrize(
    ("rung", "message"),
    [
        (
            {**SEVERAL, "accelerator": "nvidia-h100-80gb"},
            "network: must be 'tcpx' or 'tcp' for 2 hosts of a3-highgpu-8g, which has no RDMA, got "
            "none; nvidia-b200 and nvidia-h200-141gb have it",
        ),
        (
            {**L4, "network": "rdma"},
            "network: must be 'tcp' or unset for g2-standard-12, which has no RDMA, got 'rdma';"
            " nvidia-b200 and nvidia-h200-141gb have it",
        ),
        (
            {**V6E, "network": "tcp"},
            "network: must not be set for tpu-v6e: the hosts of a slice have their own links,"
            " got 'tcp'",
        ),
        ({**L4, "network": "ib"}, "network: must be one of rdma, tcpx, tcpxo, tcp, got 'ib'"),
    ],
)
def test_a_network_that_the_machine_does_not_have_is_refused(rung, message):
    with pytest.raises(InputError) as caught:
        check_rung(rung)
    assert str(caught.value) == message
