"""Calibration from ten minutes of an engine's metrics, made in virtual time."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from gke_inference.catalogue.engines import engine
from gke_inference.catalogue.input_error import InputError
from planner.speed import points as published
from planner.speed.calibrated import Calibration, read_calibration, write_calibration
from planner.speed.correction import forget
from scripts.app import build_app
from scripts.calibrate import command
from scripts.calibrate.comparing import Comparison, compared, pooled
from scripts.calibrate.series import Grown, counters, engines, together
from scripts.shared.calibration_files import calibration_of, entry_of
from scripts.shared.deployments import deployment_of
from scripts.terminal.console import CommandError
from simulator.engine.settings import Deployment
from simulator.engine.step_times import Compared, Period
from tests.unit.calibrate.recorded import END, Recorded
from tests.unit.calibrate.virtual import scraped

MODEL = "meta-llama/Llama-3.1-8B"
NAMES = counters(engine("vllm").metrics)
Scrapes = Callable[[float, float, float], list[str]]


def grown(pages: Sequence[str]) -> Grown:
    recorded = Recorded()
    recorded.add(pages, {"pod": "engine-0"})
    return together([each.grown() for each in engines(recorded.query, NAMES, "")])


def comparison(found: Grown, deployment: Deployment) -> Comparison:
    return compared("llama", "nvidia-l4 x1", "vLLM", found, deployment)


@pytest.fixture(scope="module")
def l4() -> Deployment:
    return deployment_of(MODEL, "nvidia-l4", 1, ["--max-model-len=8192"])


@pytest.fixture(scope="module")
def scrapes(l4: Deployment) -> Scrapes:
    """Returns metrics by slowdown, requests per second and seconds, which several tests ask for."""
    return cache(partial(scraped, l4))


@pytest.fixture(scope="module")
def h100() -> Deployment:
    return deployment_of(MODEL, "nvidia-h100-80gb", 1, [])


@pytest.mark.parametrize(
    ("rate", "slowdown"), [(0.05, 1.0), (0.05, 1.4), (0.3, 1.0), (0.6, 1.4), (0.9, 1.0)]
)
def test_an_engine_that_is_slower_is_found_within_five_percent_and_a_healthy_one_agrees(
    l4: Deployment, scrapes: Scrapes, rate: float, slowdown: float
) -> None:
    found = comparison(grown(scrapes(slowdown, rate, 600)), l4)
    result, entry = found.result, found.entry(10, END)

    assert result is not None
    assert result.factor == pytest.approx(slowdown, rel=0.05)
    assert result.low <= slowdown <= result.high
    assert found.verdict == ("within the interval" if slowdown == 1 else "slower")
    assert (entry is None) == (slowdown == 1)


@pytest.mark.parametrize("slowdown", [1.0, 1.4])
def test_large_batches_on_a_fast_chip_are_compared_as_well(
    h100: Deployment, slowdown: float
) -> None:
    result = comparison(grown(scraped(h100, slowdown, 8, 120)), h100).result

    assert result is not None
    assert result.batch > 8
    assert result.factor == pytest.approx(slowdown, rel=0.05)
    assert result.is_off == (slowdown != 1)


def test_a_restarted_engine_does_not_count_twice(l4: Deployment) -> None:
    pages = scraped(l4, 1.0, 0.5, 150)

    found, once = grown([*pages, *pages]), grown(pages)

    assert found.totals["between_tokens"] == pytest.approx(2 * once.totals["between_tokens"])


def test_a_scrape_between_two_points_that_came_late_does_not_halve_the_batch(
    l4: Deployment,
) -> None:
    pages = scraped(l4, 1.0, 0.6, 300)
    late = [*pages[:6], pages[5], *pages[7:]]

    result = comparison(grown(late), l4).result

    assert result is not None
    assert result.factor == pytest.approx(1, rel=0.05)


def test_counters_of_one_engine_that_a_label_divides_are_added(l4: Deployment) -> None:
    page = 'x:sum{pod="a",is_streaming="%s"} %d\n'
    names = dict.fromkeys(counters(engine("sglang").metrics), "x:sum")
    recorded = Recorded()
    recorded.add([page % ("true", 5 * n) + page % ("false", n) for n in range(3)], {})
    (only,) = engines(recorded.query, names, "")
    assert set(only.grown().totals.values()) == {12.0}


def test_too_little_or_no_load_is_said_in_the_row(l4: Deployment) -> None:
    short = comparison(grown(scraped(l4, 1.0, 0.5, 40)), l4)
    assert short.result is None
    assert short.verdict.startswith("too little data: ")
    assert short.verdict.endswith("of 5 scrapes with 20 steps")
    assert comparison(Grown((), {}, 0), l4).verdict == "no replica"


def test_steps_of_another_engine_are_said_in_the_row(l4: Deployment) -> None:
    period = Period(150, 50, 150.0, 1, 100)  # 3 s between tokens
    totals = dict.fromkeys(NAMES, 100.0)
    found = comparison(Grown((period,) * 5, totals, 1), l4)
    assert found.verdict.startswith("another engine: steps must take 0.05 to 20 times the model's")
    assert found.entry(10, END) is None


def test_an_interval_that_rounds_to_one_is_not_written(l4: Deployment) -> None:
    period = Period(150, 50, 150.0, 1, 100)
    found = comparison(Grown((period,) * 5, dict.fromkeys(NAMES, 100.0), 1), l4)
    result = Compared(1.06, 1.00002, 1.12, 0.1, 0.1, 1.0, 5)
    assert result.is_off
    assert replace(found, result=result).entry(10, END) is None


def test_the_planner_is_compared_at_the_same_batch_and_lengths(
    l4: Deployment, scrapes: Scrapes
) -> None:
    planned = comparison(grown(scrapes(1.0, 0.3, 600)), l4).planned()
    assert planned is not None
    assert planned.low < planned.tpot_ms < planned.high
    assert 40 < planned.tpot_ms < 120


ENTRY = {
    "model": MODEL, "accelerator": "nvidia-l4", "chips": 1, "precision": "bf16",
    "rung": "nvidia-l4 x1 spot",
    "step_factor": 1.4, "step_factor_low": 1.36, "step_factor_high": 1.44, "tpot_ms": 90.0,
    "batch": 4.2, "input_tokens": 700.0, "output_tokens": 140.0, "minutes": 10.0,
    "measured": "2026-11-29T23:00:00+00:00",
}  # fmt: skip


def test_a_file_keeps_one_entry_per_replica_shape(tmp_path: Path) -> None:
    entries = [ENTRY, {**ENTRY, "chips": 2}, {**ENTRY, "chips": 4}]
    first = Calibration.model_validate({"stack": "local", "entries": entries}, strict=False)
    newer = first.entries[0].model_copy(update={"step_factor": 1.38})
    file = tmp_path / "calibration.yaml"
    healthy = first.entries[2].replica

    write_calibration(file, first.updated([newer], {newer.replica, healthy}))

    again = read_calibration(file)
    assert [(each.chips, each.step_factor) for each in again.entries] == [(2, 1.4), (1, 1.38)]
    assert again.stack == "local"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"step_factor": 0}, r"entries\[0\].step_factor: must be 0.05 to 20, got 0"),
        ({"measured": "yesterday"}, r"entries\[0\].measured: must be a time in ISO 8601"),
        ({"speed": 1}, r"entries\[0\].speed: is not a field of a calibration"),
        (
            {"step_factor_low": 0.9},
            r"step_factor: must be in its interval, which must not contain 1, got '1.4 in 0.9 to",
        ),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, changed: dict[str, object], message: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(yaml.safe_dump({"schema": 2, "entries": [{**ENTRY, **changed}]}))

    with pytest.raises(InputError, match=message):
        read_calibration(file)
    with pytest.raises(CommandError, match="--calibration: "):
        calibration_of(str(file))


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"entries": [ENTRY]}, "schema: must be 2; write a new file with `gke-inference cali"),
        ({"schema": 3, "entries": []}, "schema: must be 2; .*, got 3"),
        ({"schema": 2, "stack": "prod", "entries": []}, "stack: must be 'local', got 'prod'"),
        ([], ": must be a mapping of fields"),
    ],
)
def test_a_file_of_another_form_or_stack_is_refused_in_one_line(
    tmp_path: Path, document: Any, message: str
) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(yaml.safe_dump(document))
    with pytest.raises(CommandError, match=message) as error:
        calibration_of(str(file), "local")
    assert "\n" not in str(error.value)


def test_a_date_that_does_not_exist_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("schema: 2\nentries: [{measured: 2026-02-30}]\n")
    with pytest.raises(CommandError, match=r"must be YAML: day ") as error:
        calibration_of(str(file))
    assert "\n" not in str(error.value)


def test_an_engine_is_found_by_the_shape_of_its_model(l4: Deployment) -> None:
    known = Calibration.model_validate(
        {"entries": [{**ENTRY, "model": "llama-3.1-8b"}]}, strict=False
    )
    assert entry_of(known, l4) == known.entries[0]
    assert entry_of(known, replace(l4, shape=replace(l4.shape, bits=8))) is None
    assert entry_of(known, replace(l4, program="SGLang")) is None


def _run(*arguments: str) -> tuple[str, str]:
    result = CliRunner().invoke(build_app((arguments[0],)), [*arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


@pytest.fixture
def calibrated(tmp_path: Path) -> Path:
    file = tmp_path / "c.yaml"
    file.write_text(
        yaml.safe_dump({"schema": 2, "entries": [{**ENTRY, "batch": 8.0, "tpot_ms": 190.0}]})
    )
    return file


def test_replay_multiplies_step_times_with_the_factor(calibrated: Path) -> None:
    asked = [
        "replay", "mixed_lengths", "--model", MODEL, "--accelerator", "nvidia-l4",
        "--flag=--max-model-len=8192", "--rate", "0.2", "--seconds", "20", "-o", "json",
    ]  # fmt: skip
    plain = json.loads(_run(*asked)[0])[0]

    slower = json.loads(_run(*asked, "--calibration", str(calibrated))[0])[0]

    assert slower["tpot_ms"]["p50"] == pytest.approx(1.4 * plain["tpot_ms"]["p50"], rel=0.05)


def test_plan_learns_from_the_measured_times(calibrated: Path) -> None:
    asked = [
        "plan", "llama-3.1-8b", "--accelerator", "nvidia-l4", "--tpot-p95", "900", "--ttft-p95",
        "9000", "-o", "json",
    ]  # fmt: skip

    def times(text: str) -> dict[str, float]:
        choices = json.loads(text)["choices"]
        return {
            str([each[k] for k in ("parallelism", "bits", "region")]): each["tpot_p95_ms"]["value"]
            for each in choices
        }

    try:
        plain = _run(*asked)[0]
        slower = _run(*asked, "--calibration", str(calibrated))[0]
    finally:
        published.ADDED.clear()
        published.points.cache_clear()
        forget()

    before, after = times(plain), times(slower)
    both = before.keys() & after.keys()
    assert both
    assert all(after[each] > 1.1 * before[each] for each in both)


def test_cost_learns_from_the_measured_times_and_refuses_those_of_another_stack(
    tmp_path: Path, calibrated: Path
) -> None:
    asked = ["cost", "--stack", "local", "-o", "json"]
    other = tmp_path / "other.yaml"
    other.write_text(yaml.safe_dump({"schema": 2, "stack": "prod", "entries": [ENTRY]}))

    def tokens(text: str) -> float:
        return json.loads(text)["by_model_a_unit"]["llama-3.1-8b"]["value"]

    with pytest.raises(CommandError, match="stack: must be 'local', got 'prod'"):
        _run(*asked, "--calibration", str(other))
    try:
        plain = _run(*asked)[0]
        entries = yaml.safe_load(calibrated.read_text())["entries"]
        unknown = {**entries[0], "model": "chat-of-ours"}
        calibrated.write_text(yaml.safe_dump({"schema": 2, "entries": [*entries, unknown]}))
        slower, said = _run(*asked, "--calibration", str(calibrated))
    finally:
        published.ADDED.clear()
        published.points.cache_clear()
        forget()
    assert tokens(slower) > 1.2 * tokens(plain)
    assert "nvidia-l4 x1 spot): 190 ms between tokens at 8.0 sequences, 1.4 times" in said
    assert said.count("\ncalibrated: ") + said.startswith("calibrated: ") == 1
    assert "not calibrated: chat-of-ours (bf16) on 1 x nvidia-l4" in said


@pytest.fixture(scope="module")
def found(l4: Deployment, h100: Deployment, scrapes: Scrapes) -> list[Comparison]:
    """One slow and one healthy rung."""
    slow = comparison(grown(scrapes(1.4, 0.3, 240)), l4)
    healthy = comparison(grown(scraped(h100, 1.0, 2, 240)), h100)
    return [replace(slow, region="us-central1"), replace(healthy, region="us-central1")]


@pytest.fixture
def on_local(
    found: list[Comparison], monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Comparison]]:
    """Let `calibrate --stack local` find one slow and one healthy rung."""
    rows = [*found]
    monkeypatch.setattr(command, "_sites", lambda *_: nullcontext(()))
    monkeypatch.setattr(command, "compare_stack", lambda *_: rows)
    yield rows
    forget()


def test_only_what_differs_is_written_with_its_stack_rung_and_date(
    tmp_path: Path, on_local: list[Comparison]
) -> None:
    file = tmp_path / "c.yaml"
    old = Calibration.model_validate(
        {"stack": "local", "entries": [{**ENTRY, "accelerator": "nvidia-h100-80gb"}]}, strict=False
    )
    write_calibration(file, old)

    shown, said = _run("calibrate", "--stack", "local", "--write", str(file))

    assert said.startswith("On the twin")
    assert "1 of 2 replicas differ from the engine model; plan, cost, replay and rehearse" in shown
    (entry,) = read_calibration(file).entries
    assert (entry.model, entry.rung, entry.accelerator) == (MODEL, "nvidia-l4 x1", "nvidia-l4")
    assert entry.step_factor == pytest.approx(1.4, rel=0.05)
    assert read_calibration(file).stack == "local"
    found = json.loads(_run("calibrate", "--stack", "local", "-o", "json")[0])
    assert [row["verdict"] for row in found] == ["slower", "within the interval"]
    assert [row["entry"] is None for row in found] == [False, True]
    assert all(row["planner_low_ms"] < row["planner_high_ms"] for row in found)


def test_a_file_of_another_stack_is_not_changed(tmp_path: Path, on_local: list[Comparison]) -> None:
    file = tmp_path / "c.yaml"
    write_calibration(file, Calibration(stack="prod", entries=()))
    before = file.read_text()
    with pytest.raises(CommandError, match=r"--write: .*stack: must be 'local', got 'prod'"):
        _run("calibrate", "--stack", "local", "--write", str(file))
    assert file.read_text() == before


def test_regions_are_pooled_for_the_file(l4: Deployment, scrapes: Scrapes) -> None:
    pages = scrapes(1.4, 0.3, 240)
    rows = [replace(comparison(grown(pages), l4), region=name) for name in ("a", "b")]
    (both,) = pooled(rows)
    assert both.found.replicas == 2
    assert both.result is not None
    assert rows[0].result is not None
    assert both.result.factor == pytest.approx(rows[0].result.factor)
