"""The command `rehearse`: options in one line, faults as steps, dollars at list price."""

import re
from typing import Any, cast

import numpy as np
import pytest

from infra.estimate.stack_cost import stack_cost
from infra.plan import resolve
from planner.speed.calibrated import Calibration, Entry, write_calibration
from scripts.rehearse.calibrated import calibrated
from scripts.rehearse.changes import with_changes
from scripts.rehearse.command import _moment, _rates
from scripts.rehearse.describe import Described
from scripts.rehearse.faults import with_faults
from scripts.rehearse.files import from_file
from scripts.rehearse.page import check_page, html
from scripts.rehearse.rates import default_rates
from scripts.rehearse.result import result_of, spent_by
from scripts.terminal.console import CommandError
from simulator.engine.stepped import Finished, LeastRequest, ReferenceEngines
from simulator.rehearsal.changes import Rollout, Upgrade
from simulator.rehearsal.description import Fallback, Limit, Model, Slo, Team
from simulator.rehearsal.run import Bought, Rehearsal
from simulator.tests.unit.rehearsal.platforms import L4, Steady, platform, region
from tests.contract.infra.resolved import stack
from twin.world.capacity import World
from twin.world.scenario import Change


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("llm", "--rate: must be MODEL=RATE with a rate above 0, got 'llm'"),
        ("llm=-1", "--rate: must be MODEL=RATE with a rate above 0, got 'llm=-1'"),
        ("gpt=1", "--rate: must be a model of llm, got 'gpt'"),
    ],
)
def test_a_wrong_rate_is_refused_with_option_rule_and_value(given, message):
    with pytest.raises(CommandError) as error:
        _rates([given], ["llm"])
    assert str(error.value) == message


@pytest.mark.parametrize("text", ["monday", "2026-02-30T00:00:00Z", "2026-01-05T00:00:00"])
def test_a_start_that_is_no_time_is_refused(text):
    with pytest.raises(CommandError) as error:
        _moment(text)
    rule = "--start: must be a time in UTC such as 2026-01-05T08:00:00Z"
    assert str(error.value) == f"{rule}, got {text!r}"


_HEAD = "seconds,model,team,region,prompt_tokens,output_tokens,prefix,prefix_tokens\n"


def _described(*models):
    found = platform(models=tuple(Model(name, ((name, 1.0),)) for name in models))
    return Described(found, aliases={"adapter": models[0]})


def _file(tmp_path, *rows):
    file = tmp_path / "a.csv"
    file.write_text(_HEAD + "".join(f"{row}\n" for row in rows))
    return file


def test_a_file_may_name_models_of_the_stack_and_their_adapters(tmp_path):
    file = _file(tmp_path, "0,chat,,,5,5,,", "1,adapter,,,5,5,,", "2,code,,,5,5,,")
    assert from_file(file, _described("chat", "code")).models == ("chat", "code")


@pytest.mark.parametrize("name", ["", "gpt"])
def test_all_requests_of_a_file_are_for_the_only_model_of_a_stack(tmp_path, name):
    file = _file(tmp_path, f"0,{name},,,5,5,,", "1,,,,5,5,,")
    assert from_file(file, _described("chat")).models == ("chat",)


def test_a_file_with_other_models_or_with_one_moment_is_refused(tmp_path):
    file = _file(tmp_path, "0,gpt,,,5,5,,", "1,chat,,,5,5,,")
    rule = r"^--traffic: .*model: must be one of .*chat.*, got 'gpt'$"
    with pytest.raises(CommandError, match=rule):
        from_file(file, _described("chat", "code"))
    file = _file(tmp_path, "3,chat,,,5,5,,")
    with pytest.raises(CommandError, match=r"^--traffic: must span more than one moment, got "):
        from_file(file, _described("chat"))


def test_a_page_that_cannot_be_written_is_refused_before_the_rehearsal(tmp_path):
    check_page(tmp_path / "new" / "folder")
    file = _file(tmp_path)
    with pytest.raises(CommandError, match=r"^--page: must be a folder to write to, got "):
        check_page(file / "inside")


def test_faults_happen_in_the_order_of_their_times():
    found = with_faults(platform(), ["zone-loss@01:00", "spot-preemption"])
    at, moments = 0.0, []
    for step in found.steps:
        at += step.after or 0.0
        moments.append((at, step.title))
    assert moments == sorted(moments, key=lambda each: each[0])
    assert (600.0, "spot machines are preempted") in moments
    assert (4200.0, "the zones *-a are down") in moments


@pytest.mark.parametrize("given", ["no-such-scenario", "/tmp/no-such-file.yaml"])
def test_a_fault_that_does_not_exist_is_refused(given):
    with pytest.raises(CommandError, match=r"^--fault: "):
        with_faults(platform(), [given])


def _answer(tally, teams, prompts):
    """Count answers of one region and model with 50 tokens each."""
    numbers = tally.open.take(len(teams))
    tally.open.team[numbers], tally.open.prompt_tokens[numbers] = teams, prompts
    count, seconds = np.full(len(teams), 50), np.ones(len(teams))
    ended = Finished(numbers, count, seconds, 2 * seconds, count, 0 * count, 0 * count)
    tally.finish(ended, 0.0)


def test_dollars_are_the_list_price_of_the_time_of_machines():
    traffic = Steady(1.0, 1, teams=("a", "b"))
    found = Rehearsal(platform(), traffic, engines=cast("Any", None))
    region = "us-central1"
    found.machines[Bought("llm", region, "on-demand", L4, "nvidia-l4")] = 7200.0
    found.machines[Bought("", region, "on-demand", L4, "nvidia-l4")] = 3600.0
    _answer(found.tally, [0, 0, 1], [100, 100, 50])
    spent = spent_by(found)
    assert spent.total == pytest.approx(3 * 1.00041)
    assert spent.by_model == pytest.approx({"llm": 2 * 1.00041, "no model": 1.00041})
    assert spent.by_team == pytest.approx({"a": 1.5 * 1.00041, "b": 0.5 * 1.00041, "idle": 1.00041})


PATTERN = """\
length_hours: 0.1
models: {%s: {requests_per_second: 1}}
kinds: {chat: {share: 1, prompt_tokens: 100, output_tokens: 20}}
"""
AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6,374,44
2023-11-16 18:15:47.6,9,1
"""


@pytest.mark.parametrize(("name", "text"), [("t.yaml", PATTERN % "llm"), ("azure.csv", AZURE)])
def test_traffic_of_a_file_goes_to_the_models_of_the_stack(tmp_path, name, text):
    file = tmp_path / name
    file.write_text(text)
    found = from_file(file, Described(platform()))
    assert found.models == ("llm",)
    assert sum(len(part) for part in found.chunks()) > 0


def test_traffic_for_a_model_that_a_stack_of_several_lacks_is_refused_in_one_line(tmp_path):
    models = tuple(Model(name, (("llm", 1.0),)) for name in ("llm", "chat"))
    several = platform(models=models)
    file = tmp_path / "t.yaml"
    file.write_text(PATTERN % "gpt")
    with pytest.raises(CommandError, match=r"models\.gpt: must be one of llm, chat, got 'gpt'"):
        Rehearsal(several, from_file(file, Described(several)), engines=cast("Any", None))


def entry(model: str) -> Entry:
    return Entry(
        model=model, rung="nvidia-l4 x1 spot", accelerator="nvidia-l4", chips=1,
        precision="bf16", step_factor=1.4, step_factor_low=1.3, step_factor_high=1.5,
        tpot_ms=80, batch=2, input_tokens=100,
        output_tokens=20, minutes=10, measured="2026-11-01T00:00:00+00:00",
    )  # fmt: skip


def test_calibrated_engines_take_the_measured_times(tmp_path):
    file = tmp_path / "calibration.yaml"
    write_calibration(file, Calibration(entries=(entry("meta-llama/Llama-3.1-8B"),)))
    assert [each.step_factor for each in calibrated(platform(), str(file), "local").engines] == [
        1.4
    ]


def test_a_calibration_without_an_engine_of_the_stack_is_refused(tmp_path):
    file = tmp_path / "calibration.yaml"
    write_calibration(file, Calibration(entries=(entry("Qwen/Qwen3-32B"),)))
    with pytest.raises(CommandError, match="--calibration: must have a model of the stack"):
        calibrated(platform(), str(file), "local")


def test_default_rates_keep_replicas_busy_within_the_limits_of_teams():
    plan = resolve(stack("prod"))
    names = tuple(plan.platform.models)
    models = tuple(Model(name, ((name, 1.0),)) for name in names)
    contexts = {name: plan.platform.models[name].context for name in names}
    free = default_rates(plan, Described(platform(models=models), contexts=contexts))
    assert free.teams_of == {}
    assert free.by_model["llama-3.1-8b"] > free.by_model["gemma-3-27b"] > 1
    limit = Limit(requests_per_minute=198.0)  # 1 a second on the mean, 3.3 in ten minutes
    teams = {
        "chat": Team({"us-central1": limit}, frozenset({"llama-3.1-8b"})),
        "all": Team(),
    }
    limited = default_rates(
        plan, Described(platform(models=models, teams=teams), contexts=contexts)
    )
    chat, others = (limited.teams_of["llama-3.1-8b"][name] for name in teams)
    assert chat == pytest.approx(1.0)
    assert chat + others == pytest.approx(limited.by_model["llama-3.1-8b"])
    assert others < free.by_model["llama-3.1-8b"]
    assert limited.teams_of["gemma-3-27b"] == {"all": pytest.approx(free.by_model["gemma-3-27b"])}


def test_a_calibration_of_another_stack_is_refused(tmp_path):
    file = tmp_path / "calibration.yaml"
    known = Calibration(stack="prod", entries=(entry("meta-llama/Llama-3.1-8B"),))
    write_calibration(file, known)
    with pytest.raises(CommandError, match=r"stack: must be 'local', got 'prod'$"):
        calibrated(platform(), str(file), "local")


def test_a_calibration_without_an_entry_changes_nothing_and_says_so(tmp_path, capsys):
    file = tmp_path / "calibration.yaml"
    write_calibration(file, Calibration(stack="local", entries=()))
    assert calibrated(platform(), str(file), "local") == platform()
    assert "has no entry: the models hold" in capsys.readouterr().err


def _events(tmp_path, text):
    file = tmp_path / "events.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("event", "message"),
    [
        ("{at: '25:99', upgrade: {}}", r"events\[0\]\.at: must .*25:99"),
        ("{at: '09:00:30', upgrade: {}}", r"events\[0\]\.at: must .*09:00:30"),
        ("{at: 'at 9:00', upgrade: {}}", r"events\[0\]\.at: must .*at 9:00"),
        ("{at: 2026-02-30, upgrade: {}}", r"must be YAML: day "),
        ("{upgrade: {}}", r"events\[0\]\.at: is required"),
        (
            "{at: '1:00'}",
            r"events\[0\]: must have exactly one of rollout, canary, upgrade, got 'none",
        ),
        ("{at: '1:00', rollout: {model: gpt}}", r"rollout\.model: must be one of .*got 'gpt'"),
        (
            "{at: '1:00', rollout: {model: qwen3-32b, step_factor: -1}}",
            r"step_factor: must be .*-1",
        ),
        ("{at: '1:00', upgrade: {regions: [mars]}}", r"regions: must be one of .*, got 'mars'"),
        (
            "{at: '1:00', canary: {model: qwen3-32b, version: b, percent: 5}}",
            r"canary\.version: must be a canary of qwen3-32b, which has none, got 'b'",
        ),
        (
            "{at: '1:00', canary: {model: qwen3-32b, version: b, percent: 101}}",
            r"percent: must .*101",
        ),
        ("{at: '1:00', reboot: {}}", r"events\[0\]\.reboot: is not a field"),
    ],
)
def test_a_wrong_event_is_refused_in_one_line(tmp_path, event, message):
    plan = resolve(stack("prod"))
    names = tuple(plan.models)
    found = platform(
        region("us-central1"), models=tuple(Model(name, ((name, 1.0),)) for name in names)
    )
    with pytest.raises(CommandError, match=r"^--events: ") as error:
        with_changes(found, plan, _events(tmp_path, f"events: [{event}]"))
    assert re.search(message, str(error.value)), str(error.value)
    assert "\n" not in str(error.value)


def test_an_upgrade_begins_in_the_window_of_its_region_or_at_once_where_upgrades_are_held(tmp_path):
    file = _events(tmp_path, "events: [{at: '12:00', upgrade: {}}]")
    (held,) = with_changes(platform(), resolve(stack("prod")), file).changes
    assert isinstance(held, Upgrade)
    assert (held.at, held.until) == (12 * 3600, float("inf"))
    (waits,) = with_changes(platform(), resolve(stack("local")), file).changes
    assert isinstance(waits, Upgrade)
    assert (waits.at, waits.until) == (26 * 3600, 34 * 3600)  # from 2:00, for 8 hours


def test_a_rollout_with_slower_steps_has_engines_of_its_own(tmp_path):
    text = "events: [{at: '0:30', rollout: {model: llm, step_factor: 1.5}}]"
    found = with_changes(platform(), resolve(stack("local")), _events(tmp_path, text))
    (rollout,) = found.changes
    assert isinstance(rollout, Rollout)
    assert (rollout.at, rollout.kinds) == (1800, {0: 1})
    assert [each.step_factor for each in found.engines] == [1.0, 1.5]


def test_a_rollout_without_a_factor_has_the_engine_of_the_stack_again(tmp_path):
    events = "{at: '0:30', rollout: {model: llm, step_factor: 1.5}}, "
    events += "{at: '1:30', rollout: {model: llm}}"
    file = _events(tmp_path, f"events: [{events}]")
    slower, back = with_changes(platform(), resolve(stack("local")), file).changes
    assert isinstance(slower, Rollout)
    assert isinstance(back, Rollout)
    assert {**slower.kinds, **back.kinds} == {0: 0}


def test_the_page_has_what_each_model_got_and_each_objective():
    fallback = Fallback(3, 1000.0, 1.0, 1.0)
    model = Model("llm", (("llm", 1.0),), Slo(250.0), fallback=fallback)
    none = Change(zone="*", accelerator="nvidia-l4", provisioning="*", chips=0).line()
    alone = platform(models=(model,), world=World(stock=(none,)))
    found = Rehearsal(alone, Steady(1.0, 10), ReferenceEngines(alone.engines, LeastRequest))
    found.run()
    text = html(result_of(found, stack_cost(resolve(stack("local"))), None), "local")
    assert "<tr><td>llm</td><td>10</td><td>0</td><td>10</td><td>0</td><td></td></tr>" in text
    assert "<td>10 of 10</td><td>broken</td>" in text
    assert "<td>fallback of</td><td>llm</td><td>0.00</td>" in text
