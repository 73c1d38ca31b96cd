"""BigQuery: grants on existing tables, and the rows that streaming inserts add."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from twin.providers.gcp.bigquery import inserts, server
from twin.providers.gcp.bigquery.grants import ON_DATASET, ON_TABLE
from twin.providers.gcp.bigquery.inserts import Tables, max_bytes
from twin.providers.gcp.bigquery.rows import Rows
from twin.tests.unit.gcp.conftest import Cloud, Refused
from twin.world.capacity import World
from twin.world.tables import Column, GivenTable

TABLE = GivenTable(
    name="acme-data.answers.rows",
    columns=(
        Column(name="id", type="STRING", mode="REQUIRED"),
        Column(name="count", type="INTEGER"),
        Column(name="share", type="FLOAT"),
        Column(name="is_final", type="BOOLEAN"),
        Column(name="answered", type="TIMESTAMP"),
        Column(name="response", type="JSON"),
        Column(name="tags", type="STRING", mode="REPEATED"),
        Column(name="usage", type="RECORD", fields=(Column(name="tokens", type="INTEGER"),)),
    ),
)
URL = f"/bigquery/v2/{TABLE.path}"
WORKER = "user:worker@example.com"
DATA = {"project": "acme-data", "datasetId": "answers"}
EDITOR = {"role": "roles/bigquery.dataEditor", "tableId": "rows", "member": WORKER, **DATA}
BY_EMAIL = {"role": "roles/bigquery.user", "userByEmail": "worker@example.com", **DATA}
ON_PROJECT = "gcp:projects/iAMMember:IAMMember"
POOL = "iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/acme-data.svc.id.goog"
ADMIN = {"project": "acme-data", "role": "roles/bigquery.admin", "member": WORKER}
VIEWER = {"role": "roles/bigquery.metadataViewer", "iamMember": WORKER, **DATA}


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ensure", lambda _: None)


@pytest.fixture(name="tables")
def the_tables(cloud: Cloud, tmp_path: Path) -> Tables:
    """The table, into which a worker may insert."""
    world = World(tables=(TABLE,))
    world.save(cloud.paths.capacity_file)
    cloud.create(ON_TABLE, "editor", EDITOR)
    cloud.create(ON_DATASET, "viewer", VIEWER)
    return Tables(world, cloud.world.store, Rows(tmp_path / "bigquery.db"))


def insert(tables: Tables, *rows: Any, **fields: Any) -> tuple[int, Any]:
    """Insert rows; those that are no rows of a request are values."""
    found = [row if "json" in row else {"json": row} for row in rows]
    body = json.dumps({"rows": found, **fields}).encode()
    return tables.answer("POST", f"{URL}/insertAll", body)


def listed(tables: Tables, query: str = "") -> Any:
    status, found = tables.answer("GET", f"{URL}/data{query}", b"")
    assert status == 200, found
    return found


def ids(tables: Tables) -> list[str]:
    return [row["f"][0]["v"] for row in listed(tables).get("rows", [])]


def error_of(answer: tuple[int, Any]) -> tuple[str, str]:
    """Return location and message of the only row's error."""
    ((each,),) = [one["errors"] for one in answer[1]["insertErrors"]]
    assert (answer[0], each["reason"], each["debugInfo"]) == (200, "invalid", "")
    return each["location"], each["message"]


def test_a_row_of_all_types_is_read_as_it_was_inserted(tables: Tables) -> None:
    row = {
        "id": "a",
        "count": 7,
        "share": 0.5,
        "is_final": True,
        "answered": "2026-11-26T10:00:00Z",
        "response": '{"said": "hi"}',
        "tags": ["x", "y"],
        "usage": {"tokens": "12"},
    }
    assert insert(tables, row) == (200, {"kind": "bigquery#tableDataInsertAllResponse"})
    found = listed(tables)
    assert (found["kind"], found["totalRows"]) == ("bigquery#tableDataList", "1")
    assert [each["v"] for each in found["rows"][0]["f"]] == [
        *("a", "7", "0.5", "true", "1795687200.000000", '{"said": "hi"}'),
        [{"v": "x"}, {"v": "y"}],
        {"f": [{"v": "12"}]},
    ]


def test_values_left_out_are_null_and_lists_are_empty(tables: Tables) -> None:
    insert(tables, {"id": "a"})
    values = [each["v"] for each in listed(tables)["rows"][0]["f"]]
    assert values == ["a", None, None, None, None, None, [], None]


@pytest.mark.parametrize(
    ("values", "location", "message"),
    [
        ({"idd": "a"}, "idd", "no such field: idd."),
        ({"ID": "a"}, "ID", "no such field: ID."),
        ({"usage": {"words": 1}}, "usage.words", "no such field: usage.words."),
        ({"id": None}, "", "Missing required field: Msg_0_CLOUD_QUERY_TABLE.id."),
        ({"id": 7}, "id", "Cannot convert value to string (bad value): 7"),
        ({"id": ["a"]}, "id", "Array specified for non-repeated field: id."),
        ({"id": {"a": 1}}, "id", "This field: id is not a record."),
        ({"count": "many"}, "count", "Cannot convert value to integer (bad value): many"),
        ({"count": 2**63}, "count", f"Cannot convert value to integer (bad value): {2**63}"),
        ({"count": 1.5}, "count", "Cannot convert value to integer (bad value): 1.5"),
        ({"count": True}, "count", "Cannot convert value to integer (bad value): true"),
        ({"share": "half"}, "share", "Cannot convert value to floating point (bad value): half"),
        ({"is_final": 1}, "is_final", "Cannot convert value to boolean (bad value): 1"),
        (
            {"answered": "2026-13-01"},
            "answered",
            "Cannot convert value to timestamp (bad value): 2026-13-01",
        ),
        ({"response": "{"}, "response", "Cannot convert value to json (bad value): {"),
        ({"response": {"a": 1}}, "response", "This field: response is not a record."),
        (
            {"tags": "x"},
            "tags",
            "Repeated field must be imported as a JSON array. Field: tags.",
        ),
        ({"tags": [None]}, "tags[0]", "Only optional fields can be set to NULL."),
        ({"usage": 7}, "usage", "This field: usage is not a record."),
    ],
)
def test_a_row_that_does_not_fit_has_its_field_and_reason(
    tables: Tables, values: dict[str, Any], location: str, message: str
) -> None:
    assert error_of(insert(tables, {"id": "a", **values})) == (location, message)
    assert ids(tables) == []


def test_one_invalid_row_stops_all_rows_of_a_request(tables: Tables) -> None:
    status, found = insert(tables, {"id": "a"}, {"idd": "b"}, {"id": "c"})
    reasons = [(each["index"], each["errors"][0]["reason"]) for each in found["insertErrors"]]
    assert (status, reasons) == (200, [(0, "stopped"), (1, "invalid"), (2, "stopped")])
    assert ids(tables) == []


def test_valid_rows_are_inserted_if_invalid_ones_are_skipped(tables: Tables) -> None:
    _, found = insert(tables, {"id": "a"}, {"idd": "b"}, {"id": "c"}, skipInvalidRows=True)
    assert [each["index"] for each in found["insertErrors"]] == [1]
    assert ids(tables) == ["a", "c"]


def test_unknown_values_are_dropped_on_request(tables: Tables) -> None:
    insert(tables, {"id": "a", "other": 1, "usage": {"words": 1}}, ignoreUnknownValues=True)
    assert ids(tables) == ["a"]


def test_a_row_of_a_known_insert_id_is_dropped_for_a_minute(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    def later(seconds: float, insert_id: str) -> int:
        monkeypatch.setattr(inserts.time, "time", lambda: 1000.0 + seconds)
        insert(tables, {"insertId": insert_id, "json": {"id": "a"}})
        return len(ids(tables))

    assert [later(0, "one"), later(1, "two"), later(59, "one"), later(61, "one")] == [1, 2, 2, 3]


@pytest.mark.parametrize(("length", "rows"), [(128, 1), (129, 0)])
def test_an_insert_id_has_at_most_128_characters(tables: Tables, length: int, rows: int) -> None:
    insert(tables, {"insertId": "x" * length, "json": {"id": "a"}})
    assert len(ids(tables)) == rows


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"rows": []}, "No rows present in the request."),
        (
            {"rows": [{"json": {}}] * 50_001},
            "too many rows present in the request, limit: 50000 row count: 50001.",
        ),
        ({"row": []}, 'Invalid JSON payload received. Unknown name "row": Cannot find field.'),
        ({"rows": [{"insertID": "a"}]}, 'Unknown name "rows[0].insertID": Cannot find field.'),
        ({"rows": [{"json": "a"}]}, "Invalid value at 'rows[0].json'"),
        ({"rows": ["a"]}, "Invalid value at 'rows[0]'"),
        ({"rows": [{"json": {}}], "templateSuffix": "x"}, "the twin has no template tables"),
        ([], "Invalid JSON payload received."),
    ],
)
def test_a_request_that_is_none_is_refused(tables: Tables, body: Any, message: str) -> None:
    status, found = tables.answer("POST", f"{URL}/insertAll", json.dumps(body).encode())
    assert status == 400
    assert found["error"]["message"].endswith(message)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (URL.replace("/rows", "/other"), "Not found: Table acme-data:answers.other"),
        (URL.replace("/answers", "/other"), "Not found: Dataset acme-data:other"),
    ],
)
def test_a_missing_table_is_not_found(tables: Tables, path: str, message: str) -> None:
    status, found = tables.answer("POST", f"{path}/insertAll", b'{"rows": [{"json": {}}]}')
    assert (status, found["error"]["message"]) == (404, message)
    assert found["error"]["errors"][0]["reason"] == "notFound"


def test_a_table_shows_its_columns(tables: Tables) -> None:
    status, found = tables.answer("GET", URL, b"")
    fields = found["schema"]["fields"]
    assert (status, found["id"]) == (200, "acme-data:answers.rows")
    assert fields[0] == {"name": "id", "type": "STRING", "mode": "REQUIRED"}
    assert fields[7]["fields"] == [{"name": "tokens", "type": "INTEGER", "mode": "NULLABLE"}]


def test_rows_are_listed_in_pages(tables: Tables) -> None:
    insert(tables, *({"id": name} for name in "abc"))
    first = listed(tables, "?maxResults=2")
    assert (len(first["rows"]), first["totalRows"], first["pageToken"]) == (2, "3", "2")
    second = listed(tables, f"?maxResults=2&pageToken={first['pageToken']}")
    assert [row["f"][0]["v"] for row in second["rows"]] == ["c"]
    assert "pageToken" not in second


@pytest.mark.parametrize(
    ("grants", "denied"),
    [
        ([], "bigquery.tables.updateData denied on table acme-data:answers.rows"),
        ([(ON_DATASET, VIEWER)], "bigquery.tables.updateData denied on table"),
        ([(ON_TABLE, EDITOR)], "bigquery.datasets.get denied on dataset acme-data:answers"),
        (
            [(ON_TABLE, EDITOR), (ON_DATASET, {**VIEWER, "iamMember": "user:ada@example.com"})],
            "bigquery.datasets.get denied",
        ),
        ([(ON_TABLE, EDITOR), (ON_DATASET, VIEWER)], ""),
        ([(ON_TABLE, EDITOR), (ON_DATASET, BY_EMAIL)], ""),
        ([(ON_DATASET, {**VIEWER, "role": "roles/bigquery.dataEditor"})], ""),
        ([(ON_PROJECT, {**ADMIN, "project": "acme"})], "bigquery.tables.updateData denied"),
        ([(ON_PROJECT, ADMIN)], ""),
    ],
)
def test_an_insert_needs_roles_on_the_table_and_its_dataset(
    cloud: Cloud, tmp_path: Path, grants: list[tuple[str, dict[str, str]]], denied: str
) -> None:
    world = World(tables=(TABLE,))
    world.save(cloud.paths.capacity_file)
    for at, (token, inputs) in enumerate(grants):
        cloud.create(token, f"grant-{at}", inputs)
    tables = Tables(world, cloud.world.store, Rows(tmp_path / "bigquery.db"))
    status, found = insert(tables, {"id": "a"})
    assert status == (403 if denied else 200)
    assert denied in found.get("error", {}).get("message", "")


@pytest.mark.parametrize(
    ("token", "inputs", "message"),
    [
        (ON_TABLE, {**EDITOR, "tableId": "other"}, "Not found: Table acme-data:answers.other"),
        (ON_TABLE, {**EDITOR, "datasetId": "other"}, "Not found: Dataset acme-data:other"),
        (ON_TABLE, {**EDITOR, "project": "acme"}, "Not found: Dataset acme:answers"),
        (ON_DATASET, {**VIEWER, "datasetId": "other"}, "Not found: Dataset acme-data:other"),
        (
            ON_DATASET,
            {**VIEWER, "iamMember": f"principal://{POOL}/subject/ns/a/sa/b"},
            "Identity Pool does not exist",
        ),
        (
            ON_TABLE,
            {**EDITOR, "condition": {"title": "t", "expression": "true"}},
            "Can't set conditional policy on policy type: bigquery_tables",
        ),
    ],
)
def test_a_grant_that_google_or_its_provider_refuses_is_refused(
    cloud: Cloud, token: str, inputs: dict[str, Any], message: str
) -> None:
    World(tables=(TABLE,)).save(cloud.paths.capacity_file)
    with pytest.raises(Refused, match=message):
        cloud.create(token, "grant", inputs)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([{"name": "a", "type": "TEXT"}], r"columns\[0\]\.type"),
        ([{"name": "a", "type": "STRING"}, {"name": "A", "type": "STRING"}], "got a more than"),
        ([{"name": "a", "type": "RECORD"}], "'fields' if and only if 'type' is RECORD"),
        ([], "columns"),
    ],
)
def test_a_table_without_usable_columns_is_refused(
    tmp_path: Path, columns: list[Any], message: str
) -> None:
    file = tmp_path / "capacity.yaml"
    file.write_text(json.dumps({"tables": [{"name": TABLE.name, "columns": columns}]}))
    with pytest.raises(ValueError, match=message):
        World.load(file)


def test_the_server_refuses_a_request_of_more_than_10_mib(tables: Tables, cloud: Cloud) -> None:
    made = server.serve(cloud.paths, 0)
    Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
    url = f"http://127.0.0.1:{made.server_address[1]}{URL}/insertAll"

    def sent(size: int) -> tuple[int, Any]:
        head, tail = b'{"rows": [{"json": {"id": "', b'"}}]}'
        body = head + b"x" * (size - len(head) - len(tail)) + tail
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body), timeout=30) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    try:
        assert sent(max_bytes())[0] == 200
        status, found = sent(max_bytes() + 1)
    finally:
        made.shutdown()
        made.server_close()
    text = "Request payload size exceeds the limit: 10485760 bytes."
    assert (status, found["error"]["message"]) == (400, text)
    assert listed(Tables(tables.world, tables.store, Rows(cloud.paths.root / "bigquery.db")))[
        "totalRows"
    ] == ("1")
