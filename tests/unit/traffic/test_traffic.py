"""`gke-inference traffic` on files, and recording from usage records."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner

from infra.plan.clients import GATE
from scripts.app import build_app
from scripts.clients.records import of_plan
from scripts.terminal.console import CommandError
from scripts.terminal.options import plan_of
from scripts.traffic.recording import write
from simulator.demand import read
from simulator.demand.pattern import pattern_of
from simulator.demand.summary import pattern_from, summary_of
from twin.host.paths import REPOSITORY


def run(*arguments: str) -> str:
    result = CliRunner().invoke(build_app(("traffic",)), ["traffic", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def pattern(tmp_path: Path) -> Path:
    path = tmp_path / "day.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "models": {
                    "chat": {"requests_per_second": 0.4},
                    "code": {"requests_per_second": 0.2},
                },
                "hours": [1] * 12 + [3] * 12,
                "teams": {"red": 3, "blue": 1},
                "regions": {"us-central1": {"share": 1}},
                "kinds": {
                    "all": {
                        "share": 1, "gap_cv": 2, "output_tokens": 30,
                        "prompt_tokens": [[0, 100], [50, 400], [100, 2000]],
                        "documents": {"requests": 4, "share": 0.4},
                    }
                },
            }
        )
    )  # fmt: skip
    return path


def test_describe_shows_rates_by_hour_lengths_and_shared_prefixes(pattern: Path) -> None:
    found = json.loads(run("describe", str(pattern), "-o", "json"))
    shown = run("describe", str(pattern))

    assert found["requests"] == pytest.approx(0.6 * 86_400, rel=0.04)
    hours = found["requests_per_second_by_hour"]
    assert sum(hours[12:24]) / sum(hours[:12]) == pytest.approx(3, rel=0.1)
    assert found["models"]["chat"]["shared_prefix_share"] == pytest.approx(0.4, abs=0.01)
    assert found["models"]["chat"]["gap_cv"] > 1.5
    assert found["teams"]["red"] / found["requests"] == pytest.approx(0.75, abs=0.02)
    assert "█" * 40 in shown
    assert "Requests by team: red 7" in shown


def test_a_converted_file_has_the_measures_of_the_first(pattern: Path, tmp_path: Path) -> None:
    before = summary_of(read(pattern))
    out = tmp_path / "made.yaml"

    run("convert", str(pattern), "--out", str(out))

    after = summary_of(read(out))
    assert after.requests == pytest.approx(before.requests, rel=0.05)
    for name, each in before.models.items():
        assert after.models[name].requests == pytest.approx(each.requests, rel=0.07)
        assert after.models[name].prompts.mean == pytest.approx(each.prompts.mean, rel=0.05)
        assert after.models[name].outputs.mean == pytest.approx(30, rel=0.02)
    assert after.hours[20] / after.hours[2] == pytest.approx(3, rel=0.15)
    assert after.teams["red"] / after.requests == pytest.approx(0.75, abs=0.02)
    assert pattern_from(before).kinds["all"].gap_cv == pytest.approx(2, rel=0.2)


def test_a_name_in_the_file_is_mapped_and_bad_options_are_one_line(tmp_path: Path) -> None:
    file = tmp_path / "b.csv"
    file.write_text(
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "1,GPT-4,10,5,15,API log\n9,ChatGPT,20,5,25,API log\n"
    )

    mapped = json.loads(
        run(
            "describe",
            str(file),
            "-o",
            "json",
            "--model",
            "GPT-4=large",
            "--model",
            "ChatGPT=small",
        )
    )

    assert list(mapped["models"]) == ["large", "small"]
    with pytest.raises(
        CommandError, match="--model: must be one model, or NAME=MODEL once or more"
    ):
        run("describe", str(file), "--model", "a", "--model", "b")
    with pytest.raises(
        CommandError, match="FILE: must be a readable file, a folder or default-day"
    ):
        run("describe", str(tmp_path / "none.csv"))
    with pytest.raises(CommandError, match=r"b\.csv: model: must be one of GPT-4, got 'ChatGPT'"):
        run("describe", str(file), "--model", "GPT-4=large")


def test_the_pattern_of_the_page_is_read_and_fits_the_schema() -> None:
    page = (REPOSITORY / "docs" / "traffic-files.md").read_text()
    text = page.split("<!-- pattern -->\n```yaml\n")[1].split("```")[0]

    made = pattern_of(yaml.safe_load(text), "page")

    assert list(made.models) == ["llama", "coder"]
    jsonschema.validate(yaml.safe_load(text), json.loads(run("schema")))


def usage(at: str, **changes: Any) -> dict[str, Any]:
    return {
        "time": at, "request_id": "x", "team": "red", "key_id": "secret-id",
        "subject": "ann@x.example", "model": "chat", "region": "us-central1", "status": 200,
        "stream": True, "prompt_tokens": 100, "cached_tokens": 0, "completion_tokens": 10,
        "estimated": False, "usd": 0.0, "duration_ms": 2000,
    } | changes  # fmt: skip


def test_record_writes_arrivals_without_keys_subjects_or_refused_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "clusters" / "one" / "logs" / "pods"
    folder.mkdir(parents=True)
    plan = plan_of("local")
    namespace = plan.names.gateway_namespace()
    records = [
        usage("2026-11-22T12:00:04Z"),
        usage("2026-11-22T12:00:05Z", duration_ms=4500, team="blue", cached_tokens=64),
        usage("2026-11-22T12:00:06Z", status=429, prompt_tokens=0, completion_tokens=0),
        usage("2026-11-22T12:00:07Z", cache="hit"),
        usage("2026-11-22T12:00:09.5Z", model="code", duration_ms=500, completion_tokens=77),
    ]
    (folder / f"{namespace}_{GATE}-abc_callout.log").write_text(
        "\n".join(["starting", *map(json.dumps, records)])
    )
    monkeypatch.setattr("scripts.clients.records.lifecycle.folders", lambda _: [folder.parents[1]])
    out = tmp_path / "recorded.csv"
    found = of_plan(plan, datetime(2026, 11, 1, tzinfo=UTC), cloud=False)

    assert write(found, out) == 3

    text = out.read_text()
    assert "secret-id" not in text
    assert "ann@" not in text
    assert text.splitlines()[1:] == [
        "0.000,chat,blue,us-central1,100,10,0,64",
        "1.500,chat,red,us-central1,100,10,,",
        "8.500,code,red,us-central1,100,77,,",
    ]
    assert read(out).teams == ("blue", "red")
