"""Time from the request for a replica to its first answer."""

from statistics import median

import pytest
import yaml

from planner.choice.coldstart import asks_at, checked, cold_start, spare_replicas
from planner.fit.tables import table
from twin.host.paths import REPOSITORY

SAME = {
    "node.create.gpu": ("node", "gpu", "seconds"),
    "node.create.cpu": ("node", "cpu", "seconds"),
    "node.create.tpu": ("node", "tpu", "seconds"),
    "node.create.flex-start": ("queue", "flex-start", "seconds"),
    "agent.image.engine": ("image", "plain", "seconds"),
    "agent.image.streamed": ("image", "streamed", "seconds"),
    "agent.image.boot-disk": ("image", "boot-disk", "seconds"),
    "engine.start.initialise": ("initialise", "any", "seconds"),
    "engine.weights.rate": ("weights", "bucket", "gb_per_second"),
    "engine.weights.rate-streamed": ("weights", "streamer", "gb_per_second"),
    "engine.compile.gpu": ("compile", "gpu", "seconds"),
    "engine.compile.tpu": ("compile", "tpu", "seconds"),
    "engine.compile.cached-gpu": ("compile", "cached-gpu", "seconds"),
    "engine.compile.cached-tpu": ("compile", "cached-tpu", "seconds"),
}


@pytest.mark.parametrize("rule", sorted(SAME))
def test_what_the_twin_pretends_is_what_the_planner_reckons(rule: str):
    rules = yaml.load((REPOSITORY / "twin" / "rules.yaml").read_text(), yaml.CSafeLoader)["rules"]
    value = next(entry["value"] for entry in rules if entry["id"] == rule)
    stage, name, field = SAME[rule]
    assert table("coldstart")[stage][name][field] == value


def test_half_of_the_published_times_are_within_a_quarter_and_all_but_one_in_their_range():
    found = checked()
    assert median(abs(one.error) for one in found) <= 0.25
    inside = [one.calculated.low <= one.published <= one.calculated.high for one in found]
    assert sum(inside) >= len(found) - 1


def test_stages_add_up_and_each_has_a_source():
    start = cold_start("tpu", 16.1, provisioning="flex-start")
    assert start.seconds == sum(stage.seconds for stage in start.stages)
    assert [stage.name for stage in start.stages] == [
        "queue", "node", "image", "pod", "initialise", "weights", "compile", "warm-up",
    ]  # fmt: skip
    assert all(stage.how and stage.low <= stage.seconds <= stage.high for stage in start.stages)


def test_a_cold_compile_cache_costs_more_on_a_tpu_than_anything_else():
    warm = cold_start("tpu", 16.1)
    cold = cold_start("tpu", 16.1, is_compiled=False)
    assert cold.seconds - warm.seconds > 300


def test_a_disk_is_read_at_its_own_rate():
    start = cold_start("gpu", 100.0, weights="disk", disk_gb_per_second=2.0)
    assert next(stage.seconds for stage in start.stages if stage.name == "weights") == 50


def test_a_word_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="image must be one of plain"):
        cold_start("gpu", 1.0, image="magic")


def test_spare_replicas_meet_what_grows_while_one_starts():
    start = cold_start("gpu", 16.1)
    assert spare_replicas(10, start, start.lead_seconds) == 10
    assert spare_replicas(10, start, 1e9) <= 1
    assert spare_replicas(0, start) == 0


def test_asked_at_that_load_a_replica_answers_when_the_others_are_full():
    start = cold_start("tpu", 16.1)
    load = asks_at(start, 600)
    assert load * 2 ** (start.lead_seconds / 600) == pytest.approx(1)
    assert asks_at(start, 300) < load


def test_a_disk_that_gives_nothing_is_refused_and_not_taken_for_an_unknown_one():
    with pytest.raises(ValueError, match="disk_gb_per_second must be above 0, got 0"):
        cold_start("gpu", 100.0, weights="disk", disk_gb_per_second=0.0)


def test_weights_of_a_disk_and_of_a_bucket_are_read_one_after_the_other():
    def weights(**more):
        start = cold_start("tpu", 10.0, weights="disk", disk_gb_per_second=2.0, **more)
        (stage,) = [each for each in start.stages if each.name == "weights"]
        return stage

    (beside,) = [each for each in cold_start("tpu", 4.0).stages if each.name == "weights"]
    both = weights(bucket_gb=4.0)
    assert weights().seconds == 5.0
    assert both.seconds == pytest.approx(5.0 + beside.seconds)
    assert (both.low, both.high) == pytest.approx((5.0 + beside.low, 5.0 + beside.high))
