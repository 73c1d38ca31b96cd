"""Usage of teams: which lines count, and how they are added up."""

import csv
import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from scripts.clients import command
from scripts.clients.command import usage
from scripts.clients.records import filter_of, of_cloud, of_twin
from scripts.clients.usage import added_up, as_csv, as_data
from scripts.shared.google_cloud import Cloud
from scripts.terminal.console import CommandError
from scripts.terminal.output import Output
from twin.host.paths import TwinPaths

SINCE = datetime(2026, 11, 22, tzinfo=UTC)


def record(team: str = "assistant", **changes: Any) -> dict[str, Any]:
    return {
        "cached_tokens": 4,
        "completion_tokens": 5,
        "estimated": False,
        "key_id": "aaaaaaaa",
        "model": "llama",
        "prompt_tokens": 10,
        "region": "us-central1",
        "status": 200,
        "team": team,
        "time": "2026-11-22T12:00:00.5Z",
        "usd": 0.25,
    } | changes


RECORDS = [
    record(),
    record(time="2026-11-23T00:00:01Z", completion_tokens=7),
    record("evaluation", status=429, prompt_tokens=0, completion_tokens=0, usd=0.0, model=""),
    record("evaluation", estimated=True),
]


def test_usage_adds_up_by_team():
    assistant, evaluation = added_up(RECORDS, ("team",))
    assert assistant.names == ("assistant",)
    assert (assistant.used.requests, assistant.used.completion_tokens) == (2, 12)
    assert (assistant.used.prompt_tokens, assistant.used.cached_tokens) == (20, 8)
    assert assistant.used.usd == pytest.approx(0.5)
    assert (evaluation.used.requests, evaluation.used.refused) == (2, 1)
    assert evaluation.used.estimated == 1


def test_answers_that_were_given_again_are_counted_with_what_they_saved():
    again = record(cache="hit", completion_tokens=0, prompt_tokens=0, saved_usd=0.25, usd=0.0)
    (team,) = added_up([record(cache="miss"), again, again], ("team",))
    assert (team.used.requests, team.used.reused) == (3, 2)
    assert team.used.saved_usd == pytest.approx(0.5)
    assert as_data([team], ("team",))[0]["saved_usd"] == 0.5


def test_usage_adds_up_by_several_names_at_once():
    found = [row.names for row in added_up(RECORDS, ("team", "day", "model"))]
    assert found == [
        ("assistant", "2026-11-22", "llama"),
        ("assistant", "2026-11-23", "llama"),
        ("evaluation", "2026-11-22", "-"),
        ("evaluation", "2026-11-22", "llama"),
    ]


def test_usage_adds_up_by_subject_and_keys_have_none():
    ada = record(key_id="jwt", subject="accounts.google.com:1")
    found = {row.names: row.used.requests for row in added_up([ada, ada, record()], ("subject",))}
    assert found == {("accounts.google.com:1",): 2, ("-",): 1}


def test_lines_that_are_no_record_do_not_count():
    assert added_up([{"level": "INFO", "msg": "serving"}, {"team": "a"}], ("team",)) == []


def test_files_have_the_figures_of_the_table():
    rows = added_up(RECORDS, ("team", "model"))
    (first, *_) = list(csv.DictReader(io.StringIO(as_csv(rows, ("team", "model")))))
    assert (first["team"], first["model"], first["prompt_tokens"]) == ("assistant", "llama", "20")
    assert as_data(rows, ("team", "model"))[0]["usd"] == 0.5


def test_the_twin_s_records_are_in_the_logs_of_its_gates(tmp_path):
    logs = tmp_path / "clusters" / "us-central1--acme" / "logs" / "pods"
    logs.mkdir(parents=True)
    (logs.parents[1] / "spec.json").write_text("{}")
    old = record(time="2026-11-21T00:00:00Z")
    lines = [json.dumps({"level": "INFO"}), json.dumps(record()), json.dumps(old), '{"team": "ha']
    (logs / "models_client-gate-1-2_callout.log").write_text("\n".join(lines))
    (logs / "models_llama-1-2_vllm.log").write_text(json.dumps(record("other")))
    found = list(of_twin("models", TwinPaths(tmp_path), SINCE))
    assert found == [record()]


def test_the_cloud_is_asked_page_by_page_for_records_alone():
    asked: list[dict[str, Any]] = []

    class Answer:
        status_code = 200
        text = "x"

        def json(self) -> Any:
            more = {"nextPageToken": "2"} if len(asked) == 1 else {}
            line = {"jsonPayload": record(time=""), "timestamp": "2026-11-22T12:00:00Z"}
            return {"entries": [line], **more}

    class Logging:
        def request(self, method: str, url: str, *, json: Any, **_: Any) -> Answer:
            asked.append(json)
            return Answer()

    session: Any = Logging()
    found = list(of_cloud("models", Cloud("p", session), SINCE))
    assert [one["time"] for one in found] == ["2026-11-22T12:00:00Z"] * 2
    assert [body.get("pageToken") for body in asked] == [None, "2"]
    assert 'container_name="callout"' in filter_of("models", SINCE)


def test_several_groups_can_be_in_one_word(monkeypatch, capsys):
    monkeypatch.setattr(command.records, "of_plan", lambda *_, **__: RECORDS)
    command.usage("prod", by=["team,day", "model"], since="1d", out=None, output=Output.JSON)
    (first, *_) = json.loads(capsys.readouterr().out)
    assert list(first)[:3] == ["team", "day", "model"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stack": "local"}, "--stack: must be a stack with 'clients.teams', got 'local'"),
        ({"stack": "prod", "by": ["user"]}, "--by: must be one of team, model, day, region, key"),
        ({"stack": "prod", "since": "ever"}, "--since: must be a duration such as 90d"),
    ],
)
def test_usage_that_cannot_be_asked_for_is_refused(options: dict[str, Any], message: str):
    with pytest.raises(CommandError, match=message):
        usage(**options)
