"""The report of another project's load generator is read as it is, or refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.confirm import compare
from bench.laboratory.load_tool import LoadToolError, parse, shares, version, write_tokenizer
from bench.laboratory.rows import Row
from simulator.replays.workloads import ADAPTERS, LORA_SKEW
from simulator.server.bodies.text import tokenize

REPORT: dict[str, Any] = {
    "load_summary": {
        "count": 480,
        "schedule_delay": {"median": 0.0021, "p99": 0.0312},
        "requested_rate": 24.0,
        "achieved_rate": 23.871,
    },
    "successes": {
        "count": 479,
        "latency": {"time_to_first_token": {"mean": 2.0, "median": 1.23456, "p99": 9.87654}},
        "throughput": {"output_tokens_per_sec": 1834.06},
    },
    "failures": {"count": 1},
}


def test_figures_are_those_of_the_report_with_times_in_milliseconds() -> None:
    found = parse(REPORT)
    assert (found.sent, found.failed) == (480, 1)
    assert found.throughput_tok_s == 1834.1
    assert found.ttft_ms == {"p50": 1234.6, "p99": 9876.5}
    assert found.delay_p99_ms == 31.2
    assert found.achieved_qps == 23.87


@pytest.mark.parametrize("part", ["load_summary", "successes", "failures"])
def test_a_report_that_lacks_a_figure_is_refused(part: str) -> None:
    with pytest.raises(LoadToolError, match=part):
        parse({key: value for key, value in REPORT.items() if key != part})


def test_a_report_without_one_answer_is_refused() -> None:
    nothing = {**REPORT["successes"], "latency": {"time_to_first_token": None}}
    with pytest.raises(LoadToolError):
        parse({**REPORT, "successes": nothing})


def test_shares_add_up_to_exactly_one_and_follow_the_popularity() -> None:
    found = shares(ADAPTERS, LORA_SKEW)
    assert sum(found.values()) == 1.0
    first, second = list(found.values())[:2]
    assert first / second == pytest.approx(2**LORA_SKEW, rel=1e-4)


def test_words_of_the_tools_tokenizer_are_one_token_for_the_simulated_engine(
    tmp_path: Path,
) -> None:
    write_tokenizer(tmp_path)
    words = list(json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"])[:400]
    assert len(tokenize(" ".join(words))) == 400


def test_the_lock_names_the_version_of_the_tool() -> None:
    assert version().count(".") == 2


def test_ratios_of_tool_and_laboratory_are_compared_in_percent() -> None:
    def rows(baseline: float, shipped: float) -> dict[str, Row]:
        return {
            name: {"throughput_tok_s": value, "ttft_ms": {"p99": 10 * value}}
            for name, value in (("round_robin", baseline), ("shipped", shipped))
        }

    found = compare(rows(100, 150), rows(200, 250), "throughput_tok_s")
    assert found == {"inference_perf": 1.5, "laboratory": 1.25, "difference_percent": 20.0}
    assert compare(rows(100, 150), rows(200, 250), "ttft_p99") == found
