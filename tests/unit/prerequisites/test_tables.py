"""Tables of BigQuery that a stack names must exist and take answers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google.auth.transport.requests import AuthorizedSession

from infra.plan import resolve
from infra.reading.load import parse, platform_of
from scripts.prerequisites.finding import Finding, Project
from scripts.prerequisites.tables import tables
from scripts.shared.google_cloud import Cloud, ReadOnly
from scripts.shared.quota_limits import CloudLimits
from tests.unit.bootstrap.fake_google import FakeGoogle
from tests.unit.prerequisites.ready_project import AnswersForAll

STACK = Path(__file__).parents[3] / "docs/examples/streaming/Pulumi.streaming.yaml"
HOST = "bigquery.googleapis.com"
TABLE = f"{HOST}/bigquery/v2/projects/acme-data/datasets/answers/tables/rows"
FIELDS = [
    {"name": "id", "type": "STRING", "mode": "REQUIRED"},
    {"name": "model", "type": "STRING"},
    {"name": "answered", "type": "TIMESTAMP"},
    {"name": "response", "type": "JSON"},
    {"name": "reviewed", "type": "BOOLEAN"},
]


@pytest.fixture
def google() -> Iterator[FakeGoogle]:
    fake = FakeGoogle()
    fake.services.add(HOST)
    yield fake
    fake.close()


def found_of(google: FakeGoogle) -> Finding:
    document = platform_of(STACK)
    results = {"kind": "bigquery", "table": "acme-data.answers.rows"}
    document["streams"]["summaries"]["results"] = results
    session: Any = AuthorizedSession(AnonymousCredentials())
    plan = resolve(parse(json.dumps(document)))
    cloud = Cloud(plan.platform.project, ReadOnly(session), f"{google.address}/")
    registry: Any = AnswersForAll()
    limits = lambda: CloudLimits(cloud, list(plan.regions))  # noqa: E731 - one line
    project = Project(plan, "streaming", cloud, registry, lambda _: frozenset(), limits)
    (finding,) = tables(project)
    return finding


def test_a_table_that_takes_answers_is_met(google: FakeGoogle) -> None:
    google.resources[TABLE] = {"schema": {"fields": FIELDS}}
    finding = found_of(google)
    assert (finding.subject, finding.name) == ("table", "acme-data.answers.rows")
    assert not finding.is_problem


def test_a_table_that_does_not_exist_is_missing(google: FakeGoogle) -> None:
    assert found_of(google).says == "there is none"


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (FIELDS[:2], "has no column answered, response"),
        (
            [*FIELDS[:3], {"name": "response", "type": "RECORD"}],
            "has response as RECORD; must be JSON or STRING",
        ),
        (
            [*FIELDS, {"name": "model", "type": "STRING", "mode": "REPEATED"}],
            "has model as REPEATED STRING; must be STRING",
        ),
        (
            [*FIELDS, {"name": "team", "type": "STRING", "mode": "REQUIRED"}],
            "requires team, which answers do not have",
        ),
    ],
)
def test_a_table_that_takes_no_answers_is_missing(
    google: FakeGoogle, fields: list[dict[str, str]], says: str
) -> None:
    google.resources[TABLE] = {"schema": {"fields": fields}}
    finding = found_of(google)
    assert (finding.says, finding.is_problem) == (says, True)
