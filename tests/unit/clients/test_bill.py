"""`clients bill`: periods, tables, files, and the rules of FOCUS."""

import csv
import io
import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.plan import resolve
from infra.reading.load import read
from scripts.clients import command
from scripts.clients.bill import Period, month_at, tokens_of
from scripts.terminal.console import CommandError
from scripts.terminal.output import Output
from tests.shipped_stacks import EXAMPLES
from tests.unit.clients.test_usage import record

COLUMNS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "focus-1.2.yaml").read_text())
NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
MODEL = "llama-3.1-8b"
RECORDS = [
    record("assistant", model=MODEL, prompt_tokens=4_000_000, completion_tokens=900_000),
    record("evaluation", model=MODEL, prompt_tokens=1_000_000, completion_tokens=100_000),
    record("evaluation", model="", status=404, prompt_tokens=0, completion_tokens=0),
    record("evaluation", model=MODEL, status=429, prompt_tokens=0, completion_tokens=0),
    record("evaluation", model=MODEL, time="2026-10-31T23:59:59Z"),
]
EXAMPLE = [
    record(
        team, model=MODEL, time=f"2026-11-23T11:{number % 60:02}:00Z",
        prompt_tokens=prompt, cached_tokens=cached, completion_tokens=completion,
    )
    for team, count, prompt, cached, completion in (
        ("assistant", 6000, 3000, 1000, 1000), ("evaluation", 3000, 6000, 0, 300),
    )
    for number in range(count)
]  # fmt: skip
"""The hour of the example in docs/team-bills.md."""
PAGE = Path(__file__).parents[3] / "docs" / "team-bills.md"


@pytest.fixture
def bill(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command with these records, on the shipped stack with teams."""
    monkeypatch.setattr(command.records, "of_plan", lambda *_, **__: RECORDS)
    monkeypatch.setattr(command.documents, "utc_now", lambda: NOW)

    def run(**options: Any) -> None:
        given: dict[str, Any] = {"month": "2026-11"} | options
        command.bill("prod", **given)

    return run


def data(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return json.loads(capsys.readouterr().out)


def test_a_bill_adds_up_to_the_cost_of_the_month_so_far(bill, capsys):
    bill(output=Output.JSON)
    rows = data(capsys)
    assert [row["team"] for row in rows] == ["assistant", "evaluation", "(idle)", "(platform)"]
    plan = command.records.plan_with_teams("prod")
    hours = (NOW - datetime(2026, 11, 1, tzinfo=UTC)).total_seconds() / 3600
    whole = command.stack_cost(plan).total("expected").value * hours
    assert sum(row["usd"] for row in rows) == pytest.approx(whole, rel=1e-6)
    assert rows[0]["requests"] == 1
    assert rows[0]["usd"] > rows[1]["usd"] > 0


def test_a_bill_can_be_divided_by_model_region_and_component(bill, capsys):
    bill(by=["team,model", "region,component"], output=Output.JSON)
    first = data(capsys)[0]
    assert [first[name] for name in ("team", "model", "region", "component")] == [
        "assistant", MODEL, "us-central1", "accelerators",
    ]  # fmt: skip


def test_an_invoice_is_divided_to_the_cent(bill, capsys, tmp_path):
    file = tmp_path / "bill.csv"
    bill(invoice=1000.0, out=file, output=Output.JSON)
    assert sum(row["usd"] for row in data(capsys)) == pytest.approx(1000)
    assert sum(float(row["usd"]) for row in csv.DictReader(io.StringIO(file.read_text()))) == (
        pytest.approx(1000)
    )


def test_the_table_says_what_the_bill_is(bill, capsys):
    bill(output=Output.WIDE)
    text = capsys.readouterr().out
    assert "2026-11-01 00:00 to 2026-11-23 12:00 UTC, 540 h" in text
    assert "computed from list prices; not an invoice of Google" in text
    assert "100.0%" in text


def test_a_table_without_teams_says_who_pays(bill, capsys, monkeypatch):
    monkeypatch.setattr(command.console, "width", 160)
    bill(by=["model"], output=Output.WIDE)
    lines = capsys.readouterr().out.splitlines()
    payers = [line.split()[0] for line in lines if line.split() and line.split()[0].islower()]
    assert list(dict.fromkeys(payers)) == ["team", "idle", "platform", "all"]


def test_an_invoice_for_a_cost_of_nothing_is_refused(bill, monkeypatch):
    whole = command.team_bill
    monkeypatch.setattr(command, "team_bill", lambda *a, **k: whole(*a, **k).scaled(0.0))
    with pytest.raises(CommandError, match=r"^--invoice: cannot be divided, because the computed"):
        bill(invoice=5.0)


def test_the_page_shows_what_the_command_prints(bill, monkeypatch, capsys):
    plan = resolve(read("clients", EXAMPLES / "clients"))
    monkeypatch.setattr(command.records, "plan_with_teams", lambda _: plan)
    monkeypatch.setattr(command.records, "of_plan", lambda *_, **__: EXAMPLE)
    monkeypatch.setattr(command.console, "width", 120)
    drawing = os.environ.get("TEAM_BILL")  # the picture of the page
    bill(month=None, since="1h", chart=None if drawing is None else Path(drawing))
    printed = [line.rstrip() for line in capsys.readouterr().out.strip().splitlines()]
    assert "\n".join(printed) in PAGE.read_text()


def test_the_shares_are_drawn_with_a_bar_for_each_payer(bill, tmp_path):
    bill(chart=tmp_path / "bill.svg", output=Output.JSON)
    text = (tmp_path / "bill.svg").read_text()
    assert all(f">{name}<" in text for name in ("assistant", "(idle)", "(platform)", "standby"))


def test_only_records_of_the_period_with_a_model_and_tokens_count():
    period = Period(datetime(2026, 11, 1, tzinfo=UTC), NOW)
    found = {
        (key.team, one.requests, one.prompt) for key, one in tokens_of(RECORDS, period).items()
    }
    assert found == {("assistant", 1, 4_000_000), ("evaluation", 1, 1_000_000)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"month": "11/2026"}, "--month: must be a month such as 2026-11, got '11/2026'"),
        ({"month": "2026-13"}, "--month: must be a month such as 2026-11, got '2026-13'"),
        ({"month": "2026-12"}, "--month: must be a month that has begun, got '2026-12'"),
        ({"since": "1d"}, "--since: must be omitted with --month"),
        ({"month": None, "since": "0d"}, "--since: must be a duration such as 90d"),
        ({"month": None, "since": "ever"}, "--since: must be a duration such as 90d"),
        ({"by": ["user"]}, "--by: must be one of team, model, region, component"),
        ({"cost": "mean"}, "--cost: must be one of minimum, expected, maximum, got 'mean'"),
        ({"invoice": 0.0}, "--invoice: must be more than 0, got 0.0"),
        ({"invoice": float("inf")}, "--invoice: must be more than 0, got inf"),
        ({"month": None, "focus": Path("f.csv")}, "--month: is required with --focus"),
    ],
)
def test_what_a_bill_cannot_do_is_refused_before_records_are_read(
    bill, monkeypatch, options, message
):
    monkeypatch.setattr(command.records, "of_plan", lambda *_, **__: pytest.fail("read"))
    with pytest.raises(CommandError, match="^" + re.escape(message)):
        bill(**options)


def test_a_month_ends_where_the_next_one_begins():
    december = month_at("--month", "2026-12", datetime(2027, 2, 1, tzinfo=UTC))
    assert december.end == datetime(2027, 1, 1, tzinfo=UTC)
    assert december.billing == december


def _focus(bill: Any, file: Path, **options: Any) -> list[dict[str, str]]:
    bill(focus=file, output=Output.JSON, **options)
    return list(csv.DictReader(io.StringIO(file.read_text())))


_FORMATS = {
    "Decimal": re.compile(r"-?[0-9]+(\.[0-9]+)?(E-?[0-9]+)?"),
    "Date/Time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    "String": re.compile(r"\S|\S.*\S"),
}


def _check(row: dict[str, str]) -> None:
    """Check a row against the content constraints of its columns, and rules across columns."""
    for name, value in row.items():
        if name.startswith("x_"):
            continue
        rule = COLUMNS[name]
        if not value:
            assert rule["nulls"], f"{name} must not be null"
            continue
        if rule["type"] == "JSON":
            assert all(isinstance(one, str) for one in json.loads(value).values())
        else:
            assert _FORMATS[rule["type"]].fullmatch(value), f"{name}: {value!r}"
        assert value in rule.get("values", [value]), f"{name}: {value!r}"
    # columnhandling, chargecategory, contractedcost, subaccountname, resourcetype, consumedunit
    assert row["ContractedCost"] == row["BilledCost"] == row["EffectiveCost"]
    assert bool(row["SubAccountId"]) == bool(row["SubAccountName"]) == bool(row["SubAccountType"])
    assert bool(row["ResourceId"]) == bool(row["ResourceType"]) == bool(row["ResourceName"])
    assert bool(row["RegionId"]) == bool(row["RegionName"])
    assert row["ConsumedQuantity"]
    assert row["PricingQuantity"]
    assert row["BillingPeriodStart"] <= row["ChargePeriodStart"] < row["ChargePeriodEnd"]
    assert row["ChargePeriodEnd"] <= row["BillingPeriodEnd"]


def test_every_charge_keeps_the_rules_of_focus(bill, tmp_path):
    rows = _focus(bill, tmp_path / "focus.csv", overhead=command.Overhead.SHARED)
    mandatory = {name for name, rule in COLUMNS.items() if rule["level"] == "Mandatory"}
    assert mandatory <= set(rows[0])
    assert {name for name in rows[0] if not name.startswith("x_")} <= set(COLUMNS)
    for row in rows:
        _check(row)
    services = {(row["ServiceName"], row["ServiceCategory"]) for row in rows}
    assert len(services) == len({name for name, _ in services}), "a service has one category"


def test_charges_in_focus_add_up_to_the_bill_and_keep_list_prices(bill, tmp_path, capsys):
    rows = _focus(bill, tmp_path / "focus.csv", invoice=1000.0)
    assert sum(float(row["BilledCost"]) for row in rows) == pytest.approx(1000)
    capsys.readouterr()
    bill(output=Output.JSON)
    listed = sum(row["usd"] for row in data(capsys))
    assert sum(float(row["ListCost"]) for row in rows) == pytest.approx(listed, rel=1e-6)
    (first, *_) = [row for row in rows if row["SubAccountId"] == "assistant"]
    assert (first["ConsumedQuantity"], first["ConsumedUnit"]) == ("4900000", "Tokens")
    assert json.loads(first["Tags"])["team"] == "assistant"
    assert first["BillingPeriodEnd"] == "2026-12-01T00:00:00Z"
    assert first["ChargePeriodEnd"] == "2026-11-23T12:00:00Z"
