"""Calibration from ten minutes of an engine's metrics, made in virtual time."""

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from gke_inference.catalogue.input_error import InputError
from planner.speed import points as published
from planner.speed.calibrated import Calibration, read_calibration, write_calibration
from planner.speed.correction import forget
from scripts.app import build_app
from scripts.calibrate.command import address_of, compared, entry_of
from scripts.calibrate.series import COUNTERS, SCRAPE_SECONDS, Grown, grown
from scripts.shared.calibration_files import calibration_of
from scripts.shared.deployments import deployment_of
from scripts.terminal.console import CommandError
from simulator.engine.settings import Deployment
from simulator.engine.step_times import Period
from tests.unit.calibrate.virtual import scraped
from twin.cluster.monitoring.promql import Series

MODEL = "meta-llama/Llama-3.1-8B"
_LINE = re.compile(r"^(\S+?)(?:\{[^}]*\})? (\S+)$")


def prometheus(pages: Sequence[str]) -> Callable[[str], list[Series]]:
    values: dict[str, list[tuple[float, float]]] = {}
    for number, page in enumerate(pages):
        for line in page.splitlines():
            match = _LINE.match(line)
            if match and match[1] in COUNTERS.values():
                at = 1_750_000_000 + SCRAPE_SECONDS * number
                values.setdefault(match[1], []).append((at, float(match[2])))
    return lambda name: [Series({"pod": "engine-0"}, tuple(values[name]))]


@pytest.fixture(scope="module")
def l4() -> Deployment:
    return deployment_of(MODEL, "nvidia-l4", 1, ["--max-model-len=8192"])


@pytest.fixture(scope="module")
def h100() -> Deployment:
    return deployment_of(MODEL, "nvidia-h100-80gb", 1, [])


@pytest.mark.parametrize(("rate", "slowdown"), [(0.3, 1.0), (0.6, 1.0), (0.3, 1.4), (0.6, 1.4)])
def test_an_engine_that_is_slower_is_found_within_five_percent_and_a_healthy_one_agrees(
    l4: Deployment, rate: float, slowdown: float
) -> None:
    found = grown(prometheus(scraped(l4, slowdown, rate)), "")

    result = compared(found, l4)
    entry = entry_of(result, found, l4, MODEL, 1, 10, 1_750_000_600)

    assert result.factor == pytest.approx(slowdown, rel=0.05)
    assert result.low <= slowdown <= result.high
    assert result.is_off == (slowdown != 1)
    assert (entry.step_factor == 1.0) == (slowdown == 1)


@pytest.mark.parametrize("slowdown", [1.0, 1.4])
def test_large_batches_on_a_fast_chip_are_compared_as_well(
    h100: Deployment, slowdown: float
) -> None:
    result = compared(grown(prometheus(scraped(h100, slowdown, 8, 240)), ""), h100)

    assert result.batch > 8
    assert result.factor == pytest.approx(slowdown, rel=0.05)
    assert result.is_off == (slowdown != 1)


def test_a_restarted_engine_does_not_count_twice(l4: Deployment) -> None:
    pages = scraped(l4, 1.0, 0.5, 150)

    found = grown(prometheus([*pages, *pages]), "")

    once = grown(prometheus(pages), "")
    assert found.totals["steps"] == pytest.approx(2 * once.totals["steps"])


def test_too_little_or_no_load_is_one_line(l4: Deployment) -> None:
    with pytest.raises(CommandError, match="--minutes: must have answers and 20 steps in at least"):
        compared(grown(prometheus(scraped(l4, 1.0, 0.5, 40)), ""), l4)
    with pytest.raises(CommandError, match="--matchers: must match series of vLLM engines"):
        compared(grown(lambda _: [], ""), l4)


def test_steps_of_another_engine_are_one_line(l4: Deployment) -> None:
    period = Period(50, 50, 500.0, 1, 100)  # 10 s between tokens
    found = Grown((period,) * 5, dict.fromkeys(COUNTERS, 100.0), 1)
    with pytest.raises(CommandError, match="--model, --accelerator: steps must take"):
        compared(found, l4)


@pytest.mark.parametrize("url", ["ftp:x", "http://[::1", "http://h", "http://h:9090/prefix"])
def test_an_address_that_is_no_server_is_one_line(url: str) -> None:
    with pytest.raises(CommandError, match="--prometheus: must be http://HOST:PORT, got"):
        address_of(url)


def test_an_address_is_host_and_port() -> None:
    assert address_of("http://127.0.0.1:9090/") == "127.0.0.1:9090"
    assert address_of("[::1]:9090") == "[::1]:9090"


ENTRY = {
    "model": MODEL, "accelerator": "nvidia-l4", "chips": 1, "precision": "bf16",
    "step_factor": 1.4, "step_factor_low": 1.36, "step_factor_high": 1.44, "tpot_ms": 90.0,
    "batch": 4.2, "input_tokens": 700.0, "output_tokens": 140.0, "minutes": 10.0,
    "measured": "2026-11-29T23:00:00+00:00",
}  # fmt: skip


def test_a_file_keeps_one_entry_per_replica_shape(tmp_path: Path) -> None:
    first = Calibration.model_validate({"entries": [ENTRY, {**ENTRY, "chips": 2}]}, strict=False)
    newer = first.entries[0].model_copy(update={"step_factor": 1.2})
    file = tmp_path / "calibration.yaml"

    write_calibration(file, first.with_entry(newer))

    again = read_calibration(file)
    assert [(each.chips, each.step_factor) for each in again.entries] == [(2, 1.4), (1, 1.2)]
    assert again.factor(MODEL, "nvidia-l4", 4) is None


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"step_factor": 0}, r"entries\[0\].step_factor: must be 0.05 to 20, got 0"),
        ({"measured": "yesterday"}, r"entries\[0\].measured: must be a time in ISO 8601"),
        ({"speed": 1}, r"entries\[0\].speed: is not a field of a calibration"),
    ],
)
def test_a_wrong_file_is_one_line(tmp_path: Path, changed: dict[str, object], message: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(yaml.safe_dump({"entries": [{**ENTRY, **changed}]}))

    with pytest.raises(InputError, match=message):
        read_calibration(file)
    with pytest.raises(CommandError, match="--calibration: "):
        calibration_of(str(file))


def _run(*arguments: str) -> tuple[str, str]:
    result = CliRunner().invoke(build_app((arguments[0],)), [*arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


@pytest.fixture
def calibrated(tmp_path: Path) -> Path:
    file = tmp_path / "c.yaml"
    file.write_text(yaml.safe_dump({"entries": [{**ENTRY, "batch": 8.0, "tpot_ms": 190.0}]}))
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
