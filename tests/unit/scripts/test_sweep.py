"""A sweep: what it tries, how it searches, and how it writes and shows the winner."""

import dataclasses
import shutil
from collections import Counter
from typing import Any, cast

import numpy as np
import pytest
from ruamel.yaml import YAML

from gke_inference.catalogue.input_error import InputError
from infra.plan import resolve
from infra.reading.edit import rewrite
from infra.reading.load import STACKS, platform_of, read
from scripts.rehearse.bounds import Bounds, Order, check_names, read_bounds
from scripts.rehearse.measured import (
    Measured,
    ModelMeasure,
    Period,
    busiest_end,
    kept,
    measure_of,
)
from scripts.rehearse.search import Search
from scripts.rehearse.sweep_options import Group, Option, Setting, groups_of, ordered, put
from scripts.rehearse.sweep_page import clouds
from scripts.rehearse.sweep_show import as_data, headlines, table
from scripts.rehearse.workers import Processes, workers
from scripts.terminal.console import CommandError
from simulator.demand.arrivals import MOST
from simulator.engine.stepped import LeastRequest, ReferenceEngines
from simulator.rehearsal.accounts import Outcomes
from simulator.rehearsal.description import Fallback, Model, Slo
from simulator.rehearsal.gates import NO_REPLICA
from simulator.rehearsal.run import NOT_CAPACITY, Bought, Rehearsal
from simulator.tests.unit.rehearsal.platforms import L4, Steady, platform, workload
from twin.world.capacity import World
from twin.world.scenario import Change

MODELS = ["llama-3.1-8b", "gemma-3-27b", "qwen3-32b", "llama-3.3-70b", "qwen3-embedding-0.6b"]
PROD = platform_of(STACKS / "Pulumi.prod.yaml")


def groups(bounds=None):
    return groups_of(resolve(read("prod")), PROD, bounds or Bounds(), MODELS)


def changes(group):
    return [option.text for option in group.singles]


# -- bounds


def test_by_default_models_with_an_objective_are_tried_near_their_settings():
    chat, large, heavy, small = groups()
    assert chat.models == ("llama-3.1-8b",)
    assert "models.llama-3.1-8b.replicas.min 2 → 1" in changes(chat)
    assert "models.llama-3.1-8b.regions us-central1, europe-west4, asia-northeast1 → " in "".join(
        changes(chat)
    )
    assert "capacity.interactive.rungs spot-first" in changes(chat)
    # qwen3-32b has no objective, so that cheaper is always better: it and its rungs stay
    assert large.models == ("gemma-3-27b", "qwen3-32b")
    assert not [each for each in changes(large) if "qwen3" in each or "rungs" in each]
    assert "capacity.heavy.rungs spot-first" in changes(heavy)
    assert small.settings == ()


def test_a_value_that_breaks_a_rule_of_the_stack_is_not_tried(tmp_path):
    file = tmp_path / "bounds.yaml"
    file.write_text("models: {llama-3.1-8b: {min: [0, 1, 13]}}\ncapacity: {}\n")
    chat, *others = groups(read_bounds(file))
    assert changes(chat) == ["models.llama-3.1-8b.replicas.min 2 → 1"]
    assert all(each.settings == () for each in others)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models: {chat: {mni: [1]}}", "models.chat.mni: is not a field of bounds"),
        ("capacity: {a: {order: [best]}}", "capacity.a.order[0]: must be one of spot-first, "),
        ("models: [", "must be YAML: "),
        ("finalists: 0", "finalists: must be 1 to 20, got 0"),
    ],
)
def test_wrong_bounds_are_refused_with_field_rule_and_value(tmp_path, text, message):
    file = tmp_path / "bounds.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        read_bounds(file)
    assert str(error.value).removeprefix(f"{file}: ").startswith(message)


def test_bounds_of_a_model_that_the_stack_lacks_are_refused():
    bounds = Bounds.model_validate({"models": {"lama": {}}})
    with pytest.raises(InputError, match=r"models: must be one of chat, got 'lama'"):
        check_names(bounds, {"chat": None}, {})


def test_spot_moves_within_the_rungs_of_the_same_hardware_and_reservations_stay_first():
    rungs = [("v6e", "reservation"), ("l4", "on-demand"), ("v6e", "spot"), ("l4", "spot")]
    assert ordered(rungs, Order.SPOT_FIRST) == [0, 2, 3, 1]
    assert ordered([("l4", "spot"), ("l4", "on-demand")], Order.SPOT_LAST) == [1, 0]


# -- traffic


def test_a_period_has_the_requests_between_its_ends_and_counts_from_its_start():
    whole = Steady(2.0, 100)
    part = kept(Period(whole, 10.0, 5.0), 1000)
    [found] = list(part.chunks())
    assert found.seconds.tolist() == pytest.approx(np.arange(10) / 2)
    assert part.seconds == 5.0
    assert isinstance(kept(Period(whole, 10.0, 5.0), 3), Period)


def test_the_busiest_time_ends_where_most_requests_arrived():
    class Late(Steady):
        def chunks(self, most=MOST):
            for part in super().chunks(most):
                yield part[part.seconds > 60]

    assert busiest_end(Late(1.0, 100), 50.0) == 100.0


# -- search


def setting(name, value):
    return Setting(("models", name, "replicas", "min"), value, f"{name} {value}")


class Table:
    """Workers whose figures follow from the settings: dollars by replicas, and late answers."""

    title = "a table"

    def __init__(self, late):
        self.late = late
        self.lengths = []

    def run(self, platforms, traffic, done):
        found = []
        for each in platforms:
            done()
            self.lengths.append(traffic.seconds)
            least = dict.fromkeys(("a", "b"), 3) | each.chosen
            models = {
                name: ModelMeasure(
                    float(count), 100, 0,
                    (("ttft_p95_ms", self.late(name, count, traffic.seconds), 100),),
                )
                for name, count in least.items()
            }  # fmt: skip
            usd = float(sum(least.values()))
            found.append(Measured(models, usd, 0.0, 0.0, traffic.seconds / 3600))
        return found


@dataclasses.dataclass(frozen=True)
class Chosen:
    chosen: dict


def vary(one, option):
    more = {each.path[1]: each.value for each in option.settings}
    return Chosen({**one.chosen, **more})


def searched(late):
    made = [
        Group((name,), (tuple(setting(name, value) for value in (1, 2, 4)),)) for name in ("a", "b")
    ]
    table_ = Table(late)
    progress = []
    # the search hands platforms on, and the table has its own
    search: Any = Search
    report = lambda *each: progress.append(each)  # noqa: E731 - one use
    found = search(Chosen({}), Steady(1.0, 36_000), made, vary, table_, 0.001, 2, report).run()
    return found, table_, progress


def test_the_cheapest_settings_that_keep_the_objectives_win_for_each_group():
    found, ran, progress = searched(lambda name, count, _: 50 if count < (1, 2)[name == "b"] else 0)
    assert [each.text for each in found.best] == ["a 1", "b 2"]
    assert (found.winner.usd, found.as_it_is.usd) == (3.0, 6.0)
    # 4 singles at once for both groups, then combinations, finalists, and the best together
    assert ran.lengths[:4] == [4500.0] * 4
    assert set(ran.lengths) == {4500.0, 12_000.0, 36_000}
    assert progress[0] == ("each value alone", 0, 4)
    assert found.rehearsals == len(ran.lengths)


def test_settings_that_break_an_objective_only_over_the_whole_day_do_not_win():
    found, _, _ = searched(lambda _, count, seconds: 50 if count == 1 and seconds > 30_000 else 0)
    assert [each.text for each in found.best] == ["a 2", "b 2"]


def test_without_settings_that_keep_the_objectives_the_least_misses_win_and_it_is_said():
    found, _, _ = searched(lambda _, count, __: 50 - count)
    assert [each.text for each in found.best] == ["a 4", "b 4"]
    first, changed, late, *_ = headlines(found, 0.001, "a table")
    assert "objectives BROKEN: no setting within the bounds keeps them" in first
    assert changed == "It changes: a 4; b 4"
    assert late.startswith("Late, worst objective: 46.0% of a (allowed 5%)")


def test_the_same_search_twice_finds_the_same():
    one, two = (searched(lambda _, count, __: 50 if count < 2 else 0)[0] for _ in range(2))
    assert as_data(one, "s", 0.001, "x") == as_data(two, "s", 0.001, "x")


def test_the_winner_is_marked_in_the_table_and_on_the_page():
    found, _, _ = searched(lambda _, count, __: 50 if count < 2 else 0)
    listing = table(found)
    assert listing.row_count > 2
    first = clouds(found)[0]
    assert (first.title, first.points[-1].is_best, first.limit) == ("a", True, pytest.approx(5.0))


# -- workers


def test_processes_measure_as_this_one_does():
    platforms = [platform(workloads=(workload(least=count),)) for count in (1, 2)]
    ended = []
    traffic = Steady(1.0, 60)
    both = Processes(2).run(platforms, traffic, lambda: ended.append(1))
    assert both == [Processes(1).run([each], traffic, lambda: None)[0] for each in platforms]
    assert len(ended) == 2
    assert both[1].usd > both[0].usd


def test_ray_without_its_package_is_refused_in_one_line(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    rule = r"^--ray: must be omitted without the package ray, got"
    with pytest.raises(CommandError, match=rule), workers("local"):
        pass


def test_machines_that_no_replica_used_cost_the_models_that_they_suit():
    found = Rehearsal(platform(), Steady(1.0, 1), engines=cast("Any", None))
    found.machines[Bought("", "us-central1", "on-demand", L4, "nvidia-l4")] = 3600.0
    measured = measure_of(found)
    assert measured.models["llm"].usd == pytest.approx(measured.usd)
    assert measured.usd > 0


@pytest.mark.parametrize("reason", NOT_CAPACITY)
def test_requests_that_no_replica_could_answer_do_not_count_against_settings(reason, monkeypatch):
    found = Rehearsal(platform(), Steady(1.0, 10), engines=cast("Any", None))
    one = Outcomes(sent=10, answered=6, refused=4, reasons=Counter({reason: 3, NO_REPLICA: 1}))
    monkeypatch.setattr(Rehearsal, "outcomes", {("llm", "us-central1"): one})
    assert measure_of(found).models["llm"].failed == 1


# -- writing


def test_the_winner_is_written_with_every_comment_kept(tmp_path):
    shutil.copy(STACKS / "Pulumi.prod.yaml", tmp_path)
    order = Setting(("capacity", "heavy", "rungs"), (2, 0, 1), "")
    option = Option((order, setting("llama-3.1-8b", 1)))
    before = (tmp_path / "Pulumi.prod.yaml").read_text()
    rewrite("prod", lambda each: put(each, option), tmp_path)
    after = (tmp_path / "Pulumi.prod.yaml").read_text()
    found = read("prod", tmp_path)
    assert found.models["llama-3.1-8b"].replicas.min == 1
    assert [each.provisioning.value for each in found.capacity["heavy"].rungs] == [
        "spot", "reservation", "on-demand",
    ]  # fmt: skip
    comments = [line.partition("#")[2] for line in before.splitlines() if "#" in line]
    assert all(comment in after for comment in comments)
    assert "nvidia-h200-141gb # reserved in two of the regions" in after
    assert YAML().load(after)["config"] != YAML().load(before)["config"]


def test_a_model_that_only_its_fallback_answers_is_judged_by_its_answers_and_pays_for_them():
    fallback = Fallback(3, 1000.0, 1.0, 1.0)
    model = Model("llm", (("llm", 1.0),), Slo(2000.0), fallback=fallback)
    none = Change(zone="*", accelerator="nvidia-l4", provisioning="*", chips=0).line()
    alone = platform(models=(model,), world=World(stock=(none,)))
    found = Rehearsal(alone, Steady(1.0, 10), ReferenceEngines(alone.engines, LeastRequest))
    found.run()
    measured = measure_of(found).models["llm"]
    assert (measured.late_share, measured.excess(0.0)) == (0.0, 0.0)
    assert measured.usd == pytest.approx(10 * 120 / 1e6)
