"""Answers of the world to requests for machines."""

import re
import time
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from twin.host.paths import TwinPaths
from twin.world.capacity import (
    Claim,
    Clock,
    Holding,
    StockLine,
    World,
    decide,
    initial,
    reservation_of,
    to_take_away,
)
from twin.world.capacity_ledger import Ledger
from twin.world.machines import Provisioning
from twin.world.quota import QuotaLine

ZONE = "us-east5-b"


def claim(
    node="n",
    *,
    provisioning: Provisioning = "on-demand",
    chips=4,
    zone=ZONE,
    reservation=None,
    accelerator="tpu-v6e",
):
    if provisioning == "reservation":
        reservation = reservation or "res"
    return Claim(node, zone, accelerator, provisioning, chips, reservation)


def held(*claims):
    return [Holding(item, "c", float(number)) for number, item in enumerate(claims)]


def test_a_world_nobody_described_has_plenty():
    assert decide(World(), [], [claim()], "acme").granted


def test_a_world_with_nothing_still_has_general_machines():
    world = World(default="none")
    assert decide(world, [], [claim()], "acme").outcome == "stockout"
    assert decide(world, [], [claim(accelerator="e2")], "acme").granted


def test_stock_is_counted_over_what_is_handed_out():
    world = World(stock=(StockLine(zone=ZONE, accelerator="tpu-v6e", chips=8),))
    assert decide(world, held(claim("a")), [claim("b")], "acme").granted
    answer = decide(world, held(claim("a"), claim("b")), [claim("c")], "acme")
    assert answer.code == "ZONE_RESOURCE_POOL_EXHAUSTED"
    assert "projects/acme/zones/us-east5-b" in answer.message


def test_a_group_is_granted_as_a_whole_or_not_at_all():
    world = World(stock=(StockLine(zone=ZONE, accelerator="tpu-v6e", chips=8),))
    answer = decide(world, [], [claim("a"), claim("b"), claim("c")], "acme")
    assert answer.outcome == "stockout"


def test_a_pattern_shares_its_chips_over_the_zones_it_matches():
    world = World(stock=(StockLine(zone="us-east5-*", accelerator="tpu-v6e", chips=4),))
    answer = decide(world, held(claim("a", zone="us-east5-a")), [claim("b")], "acme")
    assert answer.outcome == "stockout"


def test_a_reservation_serves_only_those_who_name_it():
    line = StockLine(
        zone=ZONE, accelerator="tpu-v6e", provisioning="reservation", reservation="res", chips=4
    )
    world = World(default="none", stock=(line,))
    assert decide(world, [], [claim(provisioning="reservation")], "acme").granted
    other = claim(provisioning="reservation", reservation="other")
    answer = decide(world, [], [other], "acme")
    assert answer.outcome == "not-found"
    assert 'reservation "other" not found for node pool' in answer.message
    assert decide(world, [], [claim()], "acme").outcome == "stockout"


def reserved(name: str, chips: int) -> StockLine:
    return StockLine(
        zone=ZONE,
        accelerator="tpu-v6e",
        provisioning="reservation",
        reservation=name,
        chips=chips,
    )


def test_a_reservation_of_another_project_is_not_the_own_one_of_that_name():
    named = reservation_of("res", "shared")
    foreign = claim(provisioning="reservation", reservation=named)
    own = reserved("res", chips=4)
    assert decide(World(stock=(own,)), [], [foreign], "acme").outcome == "not-found"
    lent = reserved(named, chips=0)
    answer = decide(World(stock=(own, lent)), [], [foreign], "acme")
    assert f"'projects/shared/zones/{ZONE}/reservations/res' does not have" in answer.message
    plenty = reserved(named, chips=8)
    assert decide(World(stock=(plenty,)), [], [foreign], "acme").granted
    mine = claim(provisioning="reservation")
    assert decide(World(stock=(plenty,)), [], [mine], "acme").outcome == "not-found"


def test_plenty_has_no_reservation_that_nobody_lists():
    unlisted = claim(provisioning="reservation")
    assert decide(World(), [], [unlisted], "acme").code == "NOT_FOUND"
    anything = StockLine(zone="*", accelerator="*", chips="unlimited")
    assert decide(World(stock=(anything,)), [], [unlisted], "acme").code == "NOT_FOUND"
    own = claim(provisioning="reservation", reservation="v6e-local", zone="us-central1-b")
    assert decide(initial(), [], [own], "acme").granted


def test_a_reservation_without_free_machines_exists_and_is_used_up():
    line = StockLine(
        zone=ZONE, accelerator="tpu-v6e", provisioning="reservation", reservation="res", chips=0
    )
    answer = decide(World(stock=(line,)), [], [claim(provisioning="reservation")], "acme")
    assert (answer.outcome, answer.code) == ("no-reservation", "INVALID_RESERVATION")


START, END = datetime(2027, 1, 11, 8, tzinfo=UTC), datetime(2027, 1, 18, 8, tzinfo=UTC)


def booked(now: datetime) -> World:
    """Return a world with a reservation in calendar mode, at a date."""
    line = reserved("res", chips=4).model_copy(update={"start": START, "end": END})
    plenty = StockLine(zone="*", accelerator="tpu-v6e", chips="unlimited")
    return World(stock=(line, plenty), clock=Clock(date=now))


@pytest.mark.parametrize(
    ("now", "outcome", "taken"),
    [
        (START - timedelta(seconds=1), "no-reservation", []),
        (START, "granted", []),
        (END - timedelta(seconds=31), "granted", []),
        (END - timedelta(seconds=30), "not-found", ["ended"]),
        (END, "not-found", ["ended"]),
    ],
)
def test_a_reservation_in_calendar_mode_has_machines_until_its_notice(now, outcome, taken):
    world, one = booked(now), claim(provisioning="reservation")
    notice = timedelta(seconds=30)
    assert decide(world, [], [one], "acme", notice).outcome == outcome
    if now >= START:  # nobody has a machine before
        assert list(to_take_away(world, held(one), notice).values()) == taken


def test_a_clock_that_was_set_goes_on_at_the_speed_of_the_twin():
    standing = Clock(date=START)
    assert standing.now() == START
    running = Clock(date=START, since=time.time() - 2, speed=100)
    assert timedelta(seconds=200) <= running.now() - START < timedelta(seconds=300)


def test_only_a_reservation_has_a_period():
    with pytest.raises(ValidationError, match="only if 'provisioning' is reservation"):
        StockLine(zone=ZONE, accelerator="tpu-v6e", chips=4, start=START)


def test_quota_is_refused_with_its_metric_limit_and_region():
    world = World(quota=(QuotaLine(region="us-central1", accelerator="nvidia-l4", chips=1),))
    request = claim(accelerator="nvidia-l4", chips=2, zone="us-central1-a")
    answer = decide(world, [], [request], "acme")
    assert answer.outcome == "quota"
    assert answer.message == "Quota 'NVIDIA_L4_GPUS' exceeded.  Limit: 1.0 in region us-central1."


def test_a_family_shares_the_name_of_its_quota_with_others_but_not_the_limit():
    world = World(quota=(QuotaLine(region="us-central1", accelerator="nvidia-b200", chips=8),))
    zone = "us-central1-b"
    others = held(claim("h", accelerator="nvidia-h100-80gb", chips=8, zone=zone))
    first = claim("a", accelerator="nvidia-b200", chips=8, zone=zone)
    assert decide(world, others, [first], "acme").granted
    answer = decide(world, [*others, *held(first)], [first], "acme")
    assert answer.message == (
        "Quota 'GPUS_PER_GPU_FAMILY' exceeded.  Limit: 8.0 in region us-central1."
    )


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        (QuotaLine(metric="GPUS_ALL_REGIONS", limit=1), ["l4-1", "l4-2"]),
        (QuotaLine(metric="INSTANCES", region="us-central1", limit=0), ["e2", "l4-1", "l4-2"]),
        (QuotaLine(metric="CPUS", region="us-central1", limit=3), ["e2"]),
        (QuotaLine(metric="CPUS", region="us-east5", limit=0), []),
        (QuotaLine(metric="CPUS_ALL_REGIONS", limit=3), ["e2"]),
    ],
)
def test_any_quota_that_a_machine_counts_against_can_be_short(line, refused):
    zone = "us-central1-a"
    asked = [
        claim("e2", accelerator="e2", zone=zone),
        claim("tpu", zone="us-east5-a"),
        claim("l4-1", accelerator="nvidia-l4", chips=2, zone=zone),
        claim("l4-2", accelerator="nvidia-l4", chips=2, zone=zone, provisioning="spot"),
    ]
    world = World(quota=(line,))
    assert [one.node for one in asked if not decide(world, [], [one], "a").granted] == refused


def test_a_quota_of_the_project_is_refused_globally():
    world = World(quota=(QuotaLine(metric="GPUS_ALL_REGIONS", limit=0),))
    answer = decide(world, [], [claim(accelerator="nvidia-l4", chips=1)], "acme")
    assert answer.message == "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally."


@pytest.mark.parametrize(
    "line",
    [
        {"accelerator": "nvidia-l4", "chips": 1},
        {"metric": "CPUS"},
        {"metric": "CPUS", "limit": 1, "accelerator": "e2"},
        {"region": "us-central1", "accelerator": "nvidia-l4", "chips": 1, "metric": "CPUS"},
    ],
)
def test_a_quota_line_says_chips_of_an_accelerator_or_the_limit_of_a_metric(line):
    with pytest.raises(ValidationError, match="set 'region', 'accelerator' and 'chips', or"):
        QuotaLine(**line)


@pytest.mark.parametrize(
    ("field", "name", "rule"),
    [
        ("accelerator", "g2", "accelerator: must be an accelerator or a family of general"),
        ("accelerator", "nvidia-l5", "accelerator: must be an accelerator or a family of general"),
        ("metric", "SSD_TOTAL_GBB", "got 'SSD_TOTAL_GBB'; did you mean 'SSD_TOTAL_GB'?"),
    ],
)
@pytest.mark.parametrize("kind", ["on-demand", "preemptible"])
def test_a_quota_line_of_something_unknown_is_refused_when_it_is_read(kind, field, name, rule):
    most = {"chips": 8} if field == "accelerator" else {"limit": 8}
    line = {"region": "us-central1", "kind": kind, field: name, **most}
    with pytest.raises(ValidationError, match=re.escape(rule)):
        World.model_validate({"quota": [line]})


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ({"metric": "CPUS"}, "region: must be set, as CPUS is a quota of each region, got None"),
        ({"metric": "N2_CPUS"}, "region: must be set, as N2_CPUS is a quota of each region"),
        (
            {"metric": "GPUS_ALL_REGIONS", "region": "us-central1"},
            "region: must not be set: GPUS_ALL_REGIONS is a quota of the whole project, got "
            "'us-central1'",
        ),
        (
            {"metric": "CPUS", "region": "us-centrall"},
            "must be a region of Google Cloud, got 'us-centrall'; did you mean us-central1?",
        ),
        (
            {"metric": "TPUS_PER_TPU_FAMILY", "region": "us-central1"},
            "value: must be the tpu_family of TPUS_PER_TPU_FAMILY, one of CT6E, tpu7x, got None",
        ),
        (
            {"metric": "TPUS_PER_TPU_FAMILY", "region": "us-central1", "value": "ct6e"},
            "one of CT6E, tpu7x, got 'ct6e'",
        ),
        (
            {"metric": "CPUS_PER_VM_FAMILY", "region": "us-central1"},
            "value: must be the vm_family of CPUS_PER_VM_FAMILY, a family of general machines "
            "such as C4, got None",
        ),
        (
            {"metric": "CPUS_PER_VM_FAMILY", "region": "us-central1", "value": "E2"},
            "such as C4, got 'E2'",
        ),
        (
            {"metric": "CPUS", "region": "us-central1", "value": "E2"},
            "value: must not be set: CPUS has no dimension, got 'E2'",
        ),
    ],
)
def test_a_quota_line_that_nothing_could_ever_count_against_is_refused(line, rule):
    with pytest.raises(ValidationError, match=re.escape(rule)) as refused:
        World.model_validate({"quota": [{**line, "limit": 1}]})
    assert refused.value.error_count() == 1


def test_a_value_beside_an_accelerator_is_refused():
    line = {"region": "us-central1", "accelerator": "tpu-v6e", "chips": 1, "value": "CT6E"}
    with pytest.raises(ValidationError, match="value: must be omitted with 'accelerator'"):
        QuotaLine(**line)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TPUS_PER_TPU_FAMILY", "CT6E"),
        ("GPUS_PER_GPU_FAMILY", "NVIDIA_H100"),
        ("CPUS_PER_VM_FAMILY", "C4"),
    ],
)
def test_a_quota_line_of_a_family_is_met_by_what_is_of_it(name, value):
    line = QuotaLine(metric=name, region="us-central1", value=value, limit=1)
    assert line.label == f"{name} {value}"


@pytest.mark.parametrize("name", ["NVIDIA_L4_GPUS", "PREEMPTIBLE_CPUS", "N2_CPUS", "HDB_TOTAL_GB"])
def test_a_quota_line_may_have_any_name_of_the_catalogues(name):
    assert QuotaLine(metric=name, region="us-central1", limit=1).label == name


@pytest.mark.parametrize("family", ["e2", "m3", "c4d"])
def test_a_quota_line_may_be_of_any_family_of_general_machines(family):
    assert QuotaLine(accelerator=family, region="us-central1", chips=8).most == 8


@pytest.mark.parametrize("provisioning", ["spot", "flex-start"])
def test_spot_and_flex_start_draw_from_preemptible_quota(provisioning):
    world = World(
        quota=(QuotaLine(region="us-east5", accelerator="tpu-v6e", kind="preemptible", chips=0),)
    )
    assert decide(world, [], [claim(provisioning=provisioning)], "acme").outcome == "quota"
    assert decide(world, [], [claim()], "acme").granted


def test_a_zone_that_is_down_grants_nothing():
    assert decide(World(outages=("*-b",)), [], [claim()], "acme").outcome == "stockout"


def test_the_newest_spot_machines_are_preempted_first():
    world = World(stock=(StockLine(zone="*", accelerator="*", provisioning="spot", chips=4),))
    holdings = held(claim("old", provisioning="spot"), claim("new", provisioning="spot"))
    taken = to_take_away(world, holdings)
    assert {item.claim.node: why for item, why in taken.items()} == {"new": "preempted"}


def test_a_withdrawn_reservation_takes_its_machines_and_leaves_on_demand_ones():
    line = StockLine(
        zone="*", accelerator="tpu-v6e", provisioning="reservation", reservation="*", chips=0
    )
    world = World(stock=(line, StockLine(zone="*", accelerator="tpu-v6e", chips=0)))
    taken = to_take_away(world, held(claim("a", provisioning="reservation"), claim("b")))
    assert {item.claim.node: why for item, why in taken.items()} == {"a": "withdrawn"}


def test_a_zone_that_is_down_loses_every_machine():
    taken = to_take_away(World(outages=(ZONE,)), held(claim("a"), claim("b", accelerator="e2")))
    assert {item.claim.node for item in taken} == {"a", "b"}


def test_a_stock_line_for_reservations_must_name_one():
    with pytest.raises(ValidationError, match="reservation"):
        StockLine(zone="*", accelerator="tpu-v6e", provisioning="reservation", chips=1)
    with pytest.raises(ValidationError, match="reservation"):
        StockLine(zone="*", accelerator="tpu-v6e", reservation="r", chips=1)


def test_a_world_survives_being_written_and_read(tmp_path):
    world = World(
        default="none",
        quota=(QuotaLine(region="us-east5", accelerator="tpu-v6e", chips=8),),
        stock=(StockLine(zone="*", accelerator="*", chips="unlimited"),),
        outages=("us-east5-a",),
    )
    file = tmp_path / "capacity.yaml"
    world.save(file)
    assert World.load(file) == world
    assert World.load(tmp_path / "missing.yaml") == initial()


def ledger(paths, cluster, owner="autoscaler"):
    folder = paths.cluster("us-east5", cluster)
    folder.mkdir(parents=True, exist_ok=True)
    return Ledger(paths, folder, "acme", owner)


def test_clusters_of_a_twin_share_what_there_is(tmp_path):
    paths = TwinPaths(tmp_path)
    World(stock=(StockLine(zone="*", accelerator="tpu-v6e", chips=4),)).save(paths.capacity_file)
    first, second = ledger(paths, "one"), ledger(paths, "two")
    assert first.acquire([claim("a")]).granted
    assert second.acquire([claim("b")]).outcome == "stockout"
    assert second.held() == set()
    first.release("a")
    assert second.acquire([claim("b")]).granted


def test_a_deleted_cluster_gives_everything_back(tmp_path):
    paths = TwinPaths(tmp_path)
    World(stock=(StockLine(zone="*", accelerator="tpu-v6e", chips=4),)).save(paths.capacity_file)
    first, second = ledger(paths, "one"), ledger(paths, "two")
    first.acquire([claim("a")])
    paths.cluster("us-east5", "one").rmdir()
    assert second.acquire([claim("b")]).granted


def test_an_owner_sees_only_its_own_nodes(tmp_path):
    paths = TwinPaths(tmp_path)
    pools, autoscaler = ledger(paths, "one", "pools"), ledger(paths, "one")
    pools.acquire([claim("a")])
    autoscaler.acquire([claim("b")])
    assert (pools.held(), autoscaler.held()) == ({"a"}, {"b"})


def test_what_is_taken_away_is_told_to_the_cluster_that_has_it(tmp_path):
    paths = TwinPaths(tmp_path)
    first, second = ledger(paths, "one"), ledger(paths, "two")
    first.acquire([claim("a", provisioning="spot")])
    World(stock=(StockLine(zone="*", accelerator="*", provisioning="spot", chips=0),)).save(
        paths.capacity_file
    )
    assert first.to_take_away() == {"a": "preempted"}
    assert second.to_take_away() == {}
