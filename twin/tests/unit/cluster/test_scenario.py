"""Scenarios change the world's capacity."""

import json
import time
from datetime import datetime

import pytest
import yaml

from twin.host.paths import TwinPaths
from twin.world.capacity import Claim, World, decide
from twin.world.events import Events
from twin.world.scenario import ScenarioError, ScenarioRunner, changed, find, load, names


def scenario(tmp_path, **content):
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump({"name": "s", "description": "d", **content}))
    return file


@pytest.mark.parametrize("name", names())
def test_every_scenario_of_the_twin_is_valid_and_named_like_its_file(name):
    assert load(find(name)).name == name


def test_the_tpu_stock_out_takes_the_reservation_and_gives_it_back():
    found = load(find("tpu-stockout"))
    tpu = [Claim("n", "us-east5-b", "tpu-v6e", "reservation", 4, "mine")]
    gpu = [Claim("n", "us-central1-a", "nvidia-l4", "on-demand", 1)]
    world, answers = found.start, []
    answers.append(decide(world, [], tpu, "acme").outcome)
    for step in found.steps[:2]:
        world = changed(world, step)
        answers.append(decide(world, [], tpu, "acme").outcome)
        assert decide(world, [], gpu, "acme").granted
    assert answers == ["granted", "no-reservation", "granted"]


def test_a_step_replaces_the_line_about_the_same_thing(tmp_path):
    line = {"zone": "*", "accelerator": "tpu-v6e", "chips": 4}
    found = load(
        scenario(
            tmp_path,
            start={"stock": [line]},
            steps=[{"title": "t", "after": 1, "set": [{**line, "chips": 0}]}],
        )
    )
    assert [item.chips for item in changed(found.start, found.steps[0]).stock] == [0]


def test_a_new_line_comes_before_the_old_ones(tmp_path):
    new = {"zone": "us-east5-a", "accelerator": "tpu-v6e", "chips": 0}
    found = load(
        scenario(
            tmp_path,
            start={"stock": [{"zone": "*", "accelerator": "*", "chips": "unlimited"}]},
            steps=[{"title": "t", "after": 1, "set": [new]}],
        )
    )
    assert changed(found.start, found.steps[0]).stock[0].zone == "us-east5-a"


def test_steps_are_played_on_the_twins_clock_and_written_down(tmp_path):
    paths = TwinPaths(tmp_path / "twin")
    paths.create()
    paths.settings_file.write_text(json.dumps({"speed": 1000}))
    file = scenario(
        tmp_path,
        steps=[
            {"title": "down", "after": 10, "outages": ["us-east5-a"]},
            {"title": "up", "after": 10, "outages": []},
        ],
    )
    runner = ScenarioRunner(paths, file)
    runner.prepare()
    seen = []
    assert runner.run(
        lambda step: seen.append((step.title, World.load(paths.capacity_file).outages))
    )
    assert seen == [("down", ("us-east5-a",)), ("up", ())]
    kinds = [(event["kind"], event["message"]) for event in Events(paths.events_file).read()]
    assert kinds == [("scenario.step", "down"), ("scenario.step", "up")]


def test_a_step_sets_the_date_which_goes_on_from_then(tmp_path):
    paths = TwinPaths(tmp_path / "twin")
    paths.create()
    paths.settings_file.write_text(json.dumps({"speed": 1000}))
    date = "2027-01-11T08:00:00Z"
    start = {"clock": {"date": "2027-01-01T00:00:00Z"}}
    file = scenario(tmp_path, start=start, steps=[{"title": "t", "after": 10, "date": date}])
    runner = ScenarioRunner(paths, file)
    runner.prepare()
    assert World.load(paths.capacity_file).now().year == 2027
    assert runner.run()
    clock = World.load(paths.capacity_file).clock
    assert clock is not None
    assert (clock.date, clock.speed) == (datetime.fromisoformat(date), 1000)
    assert clock.since == pytest.approx(time.time(), abs=60)


def test_a_step_that_waits_in_vain_ends_the_scenario(tmp_path):
    paths = TwinPaths(tmp_path / "twin")
    paths.create()
    paths.settings_file.write_text(json.dumps({"speed": 1000}))
    file = scenario(tmp_path, steps=[{"title": "t", "when": "ready", "timeout": 100}])
    assert ScenarioRunner(paths, file).run() is False


@pytest.mark.parametrize(
    ("content", "field"),
    [
        ({"steps": [{"title": "t"}]}, r"steps\[0\]"),
        (
            {"steps": [{"title": "t", "after": -1}]},
            r"steps\[0\]\.after: must be at least 0, got -1",
        ),
        ({"start": {"stocks": []}}, "start.stocks"),
        (
            {
                "steps": [
                    {
                        "title": "t",
                        "after": 1,
                        "set": [{"zone": "*", "accelerator": "a", "chips": "many"}],
                    }
                ]
            },
            "chips",
        ),
    ],
)
def test_a_wrong_scenario_is_refused_with_its_field(tmp_path, content, field):
    with pytest.raises(ScenarioError, match=field):
        load(scenario(tmp_path, **content))


@pytest.mark.parametrize(("name", "reason"), [("nothing.yaml", "no such file"), ("", "directory")])
def test_a_scenarios_file_that_cannot_be_read_is_named_with_the_reason(tmp_path, name, reason):
    with pytest.raises(ScenarioError, match=f"{name}: cannot be read: .*{reason}"):
        load(tmp_path / name)
