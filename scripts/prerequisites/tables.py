"""Existing tables of BigQuery that streams write their answers to."""

from collections.abc import Iterable, Iterator
from typing import Final

from infra.plan.streams import ANSWER_COLUMNS
from scripts.prerequisites.existing import thing
from scripts.prerequisites.finding import Finding, Project
from scripts.prerequisites.wanted import tables as wanted
from scripts.shared.google_cloud import Json

_TABLES: Final = "bigquery.googleapis.com/bigquery/v2"

Field = tuple[str, str, str]
"""Name, type and mode of a column, as in BigQuery's API."""


def tables(project: Project) -> Iterator[Finding]:
    """Yield whether each table exists and takes answers.

    Fields: docs.cloud.google.com/bigquery/docs/reference/rest/v2/tables (2026-11-26).
    """
    for name in wanted(project.plan):
        owner, dataset, table = name.split(".")
        url = f"{_TABLES}/projects/{owner}/datasets/{dataset}/tables/{table}"
        yield thing(project, "table", name, url, _judge)


def _judge(found: Json) -> str:
    fields = found.get("schema", {}).get("fields", [])
    return misfit(
        (str(each["name"]), str(each["type"]), str(each.get("mode", "NULLABLE"))) for each in fields
    )


def misfit(fields: Iterable[Field]) -> str:
    """Return why a table does not take answers; empty if it does."""
    found = {name: (kind, mode) for name, kind, mode in fields}
    missing = [name for name in ANSWER_COLUMNS if name not in found]
    if missing:
        return f"has no column {', '.join(missing)}"
    for name, kinds in ANSWER_COLUMNS.items():
        kind, mode = found[name]
        if kind not in kinds or mode == "REPEATED":
            has = f"REPEATED {kind}" if mode == "REPEATED" else kind
            return f"has {name} as {has}; must be {' or '.join(kinds)}"
    more = [name for name, (_, mode) in found.items() if mode == "REQUIRED"]
    others = [name for name in more if name not in ANSWER_COLUMNS]
    return f"requires {', '.join(others)}, which answers do not have" if others else ""
