"""BigQuery's answers: streaming inserts, and reads of a table and its rows.

The methods are `tabledata.insertAll`, `tabledata.list` and `tables.get`
(docs.cloud.google.com/bigquery/docs/reference/rest). Rules: bigquery.server, bigquery.rows.
"""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs

from twin.providers.gcp.bigquery.grants import check_insert
from twin.providers.gcp.bigquery.rows import Rows
from twin.providers.gcp.bigquery.values import RowError, error, listed, read_row
from twin.wire.property_values import CloudError, Json, as_list, as_object
from twin.world.capacity import World
from twin.world.rules import all_rules
from twin.world.store import Store
from twin.world.tables import Column, GivenTable

_PATH: Final = re.compile(
    r"/bigquery/v2/(?P<table>projects/[^/]+/datasets/[^/]+/tables/[^/:]+)(?P<method>/insertAll|/data)?"
)
_REQUEST: Final = {
    "ignoreUnknownValues": bool,
    "kind": str,
    "rows": list,
    "skipInvalidRows": bool,
    "templateSuffix": str,
    "traceId": str,
}
_ROW: Final = {"insertId": str, "json": dict}
_PAGE: Final = 1000
_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
}


def max_bytes() -> int:
    """Return the maximum size of a request."""
    return int(all_rules()["bigquery.request.most"].value)


def too_large() -> tuple[int, Json]:
    """Return status and body of the response to a request that is too large."""
    text = f"Request payload size exceeds the limit: {max_bytes()} bytes."
    return failed(CloudError(400, text, "badRequest"))


def failed(problem: CloudError) -> tuple[int, Json]:
    """Return status and body of the response to a call that fails."""
    each = {"message": problem.message, "domain": "global", "reason": problem.reason}
    told = {"code": problem.status, "message": problem.message, "errors": [each]}
    return problem.status, {"error": {**told, "status": _STATUSES.get(problem.status, "UNKNOWN")}}


@dataclass(frozen=True)
class Tables:
    """The tables of a twin, and their rows."""

    world: World
    store: Store
    rows: Rows

    def answer(self, method: str, url: str, body: bytes) -> tuple[int, Json]:
        """Return status and body of the response to a call."""
        path, _, query = url.partition("?")
        match = _PATH.fullmatch(path)
        try:
            called = None if match is None else (method, match["method"])
            if match is None or called not in _CALLS:
                raise CloudError(404, f"The requested URL {path} was not found.", "notFound")
            table = table_of(self.world, match["table"])
            if called == ("POST", "/insertAll"):
                return 200, self._insert(table, body)
            if called == ("GET", "/data"):
                return 200, self._list(table, parse_qs(query))
            return 200, shown(table)
        except CloudError as problem:
            return failed(problem)

    def _insert(self, table: GivenTable, body: bytes) -> Json:
        request = _request(body)
        check_insert(self.store, table)
        good: list[tuple[str | None, Json]] = []
        bad: dict[int, Json] = {}
        ignore = bool(request.get("ignoreUnknownValues"))
        for at, row in enumerate(request["rows"]):
            try:
                good.append(_read(table, row, ignore))
            except RowError as problem:
                bad[at] = problem.shown()
        answer: Json = {"kind": "bigquery#tableDataInsertAllResponse"}
        if not bad or request.get("skipInvalidRows"):
            seconds = float(all_rules()["bigquery.deduplication"].value)
            self.rows.add(table.path, good, time.time(), seconds)
        else:
            bad |= {at: error("stopped") for at in range(len(request["rows"])) if at not in bad}
        if bad:
            errors = [{"index": at, "errors": [bad[at]]} for at in sorted(bad)]
            answer["insertErrors"] = errors
        return answer

    def _list(self, table: GivenTable, query: Mapping[str, list[str]]) -> Json:
        start = _number(query, "pageToken", _number(query, "startIndex", 0))
        found, total = self.rows.page(table.path, start, _number(query, "maxResults", _PAGE))
        shown: Json = {"kind": "bigquery#tableDataList", "totalRows": str(total)}
        if found:
            shown["rows"] = [listed(table.columns, each) for each in found]
        if start + len(found) < total:
            shown["pageToken"] = str(start + len(found))
        return shown


def table_of(world: World, path: str) -> GivenTable:
    """Return a table by its path, `projects/P/datasets/D/tables/T`.

    Raises:
        CloudError: The table or its dataset does not exist.
    """
    dataset = path.partition("/tables/")[0]
    found = [each for each in world.tables if each.dataset == dataset]
    _, project, _, name, _, table = path.split("/")
    if not found:
        raise CloudError(404, f"Not found: Dataset {project}:{name}", "notFound")
    for each in found:
        if each.path == path:
            return each
    raise CloudError(404, f"Not found: Table {project}:{name}.{table}", "notFound")


_CALLS: Final = (("POST", "/insertAll"), ("GET", "/data"), ("GET", None))


def _number(query: Mapping[str, list[str]], name: str, default: int) -> int:
    text = query.get(name, [str(default)])[0]
    if not text.isascii() or not text.isdecimal():
        raise CloudError(400, f"Invalid value for {name}: {text}", "invalid")
    return int(text)


def _request(body: bytes) -> dict[str, Any]:
    """Return a request for inserts whose fields are those of the API."""
    try:
        request = as_object(json.loads(body))
    except ValueError as problem:
        raise _invalid(f"Invalid JSON payload received. {problem}") from problem
    if request is None:
        raise _invalid("Invalid JSON payload received.")
    _check_fields(request, _REQUEST, "")
    if request.get("templateSuffix"):
        raise CloudError(400, "the twin has no template tables", "unimplemented")
    rows = as_list(request.get("rows")) or []
    if not rows:
        raise CloudError(400, "No rows present in the request.", "invalid")
    most = int(all_rules()["bigquery.rows.most"].value)
    if len(rows) > most:
        text = f"too many rows present in the request, limit: {most} row count: {len(rows)}."
        raise CloudError(400, text, "invalid")
    for at, row in enumerate(rows):
        fields = as_object(row)
        if fields is None:
            raise _invalid(f"Invalid value at 'rows[{at}]'")
        _check_fields(fields, _ROW, f"rows[{at}].")
    return dict(request)


def _check_fields(found: Json, known: Mapping[str, type], where: str) -> None:
    for name, value in found.items():
        if name not in known:
            text = f'Invalid JSON payload received. Unknown name "{where}{name}"'
            raise _invalid(f"{text}: Cannot find field.")
        if not isinstance(value, known[name]):
            raise _invalid(f"Invalid value at '{where}{name}'")


def _invalid(text: str) -> CloudError:
    return CloudError(400, text, "badRequest")


def _read(table: GivenTable, row: Json, ignore_unknown: bool) -> tuple[str | None, Json]:
    insert_id = row.get("insertId") or None
    most = int(all_rules()["bigquery.insert-id.most"].value)
    if insert_id is not None and len(insert_id) > most:
        raise RowError("", f"insertId must have at most {most} characters, got {len(insert_id)}")
    values = as_object(row.get("json")) or {}
    return insert_id, read_row(table.columns, values, ignore_unknown=ignore_unknown)


def shown(table: GivenTable) -> Json:
    """Return a table as `tables.get` does."""
    project, dataset, name = table.name.split(".")
    reference = {"projectId": project, "datasetId": dataset, "tableId": name}
    return {
        "kind": "bigquery#table",
        "id": f"{project}:{dataset}.{name}",
        "tableReference": reference,
        "schema": {"fields": [_field(each) for each in table.columns]},
        "type": "TABLE",
    }


def _field(column: Column) -> Json:
    found: Json = {"name": column.name, "type": column.type, "mode": column.mode}
    if column.fields:
        found["fields"] = [_field(each) for each in column.fields]
    return found
