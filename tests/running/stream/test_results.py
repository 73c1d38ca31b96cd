"""Results of streams: a repeated answer is stored once, and an unavailable destination loses
none."""

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.running.programs import until
from tests.running.stream.world import PubSub
from twin.host.paths import TwinPaths
from twin.host.ports import free_port
from twin.providers.gcp.bigquery import server
from twin.providers.gcp.bigquery.grants import ON_DATASET, ON_TABLE
from twin.world.capacity import World
from twin.world.store import Store, new_record

pytestmark = pytest.mark.needs_tools


@pytest.fixture(name="bucket")
def a_bucket(world: PubSub, tmp_path: Path) -> str:
    """The URL of a server with the bucket `answers`."""
    url = f"http://127.0.0.1:{free_port()}"
    world.start(
        "fake-gcs-server",
        *("--address", url.removeprefix("http://"), "--folder", str(tmp_path / "gcs")),
    )
    until(lambda: is_made(url))
    world.environment["STORAGE_EMULATOR_HOST"] = url
    return url


def is_made(url: str) -> bool:
    body = json.dumps({"name": "answers"}).encode()
    asked = urllib.request.Request(f"{url}/storage/v1/b?project=acme", body)  # noqa: S310
    try:
        with urllib.request.urlopen(asked, timeout=5) as answer:  # noqa: S310 - of this machine
            return answer.status == 200
    except OSError:
        return False


def read(url: str, path: str) -> Any:
    with urllib.request.urlopen(f"{url}/storage/v1/b/answers/o{path}", timeout=5) as answer:  # noqa: S310
        return json.loads(answer.read())


def test_a_second_answer_leaves_the_object_of_the_first(world: PubSub, bucket: str) -> None:
    results = {"kind": "bucket", "bucket": "answers", "prefix": "day/"}
    world.model.answer = lambda _, number: (200, {}, json.dumps({"number": number}).encode())
    worker = world.work(results=results)
    number = world.put({"prompt": "a"})
    until(lambda: world.backlog() == 0)
    worker.kill()
    path = f"/day%2Fsummaries%2F{number}.json"
    assert read(bucket, f"{path}?alt=media") == {"number": 1}
    # the same message again: a new server of Pub/Sub counts from the same first id
    other = PubSub(world.folder)
    try:
        other.environment |= {"STORAGE_EMULATOR_HOST": bucket}
        other.model.answer = lambda _, __: (200, {}, b'{"number": 2}')
        assert other.put({"prompt": "a"}) == number
        second = other.work(results=results)
        until(lambda: other.backlog() == 0)
        assert second.metric('gke_inference_stream_messages_total{outcome="answered"') == 1
    finally:
        other.stop()
    assert read(bucket, f"{path}?alt=media") == {"number": 1}
    assert [each["name"] for each in read(bucket, "")["items"]] == [f"day/summaries/{number}.json"]


COLUMNS = [
    {"name": "id", "type": "STRING", "mode": "REQUIRED"},
    {"name": "model", "type": "STRING"},
    {"name": "answered", "type": "TIMESTAMP"},
    {"name": "response", "type": "JSON"},
]
RESULTS = {"kind": "bigquery", "table": "acme-data.answers.rows"}


class Table:
    """The twin's BigQuery with the table of `RESULTS`, into which a worker may insert."""

    def __init__(self, folder: Path, columns: list[dict[str, str]]) -> None:
        self._paths = TwinPaths(folder / "twin")
        self._port = free_port()
        self.address = f"127.0.0.1:{self._port}"
        given = [{"name": RESULTS["table"], "columns": columns}]
        World.model_validate({"tables": given}).save(self._paths.capacity_file)
        place = {"project": "acme-data", "datasetId": "answers"}
        on_table = {"tableId": "rows", "role": "roles/bigquery.dataEditor", "member": "user:w"}
        on_dataset = {"role": "roles/bigquery.metadataViewer", "iamMember": "user:w"}
        for kind, inputs in ((ON_TABLE, on_table), (ON_DATASET, on_dataset)):
            made = new_record(kind, kind, kind, "acme-data", kind, {**place, **inputs}, {})
            Store(self._paths.cloud_db).add(made, [])
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        self._server = server.serve(self._paths, self._port)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def rows(self) -> list[list[Any]]:
        path = "projects/acme-data/datasets/answers/tables/rows/data"
        url = f"http://{self.address}/bigquery/v2/{path}"
        with urllib.request.urlopen(url, timeout=5) as answer:
            found = json.loads(answer.read())
        return [[each["v"] for each in row["f"]] for row in found.get("rows", [])]


@pytest.fixture(name="new_table")
def a_new_table(tmp_path: Path) -> Iterator[Callable[[list[dict[str, str]]], Table]]:
    made: list[Table] = []

    def new(columns: list[dict[str, str]]) -> Table:
        made.append(Table(tmp_path, columns))
        return made[-1]

    yield new
    for each in made:
        each.stop()


def test_each_answer_becomes_a_row_once_the_table_can_be_reached(
    world: PubSub, new_table: Callable[[list[dict[str, str]]], Table]
) -> None:
    table = new_table(COLUMNS)
    world.environment["BIGQUERY_EMULATOR_HOST"] = table.address
    worker = world.work(results=RESULTS)
    numbers = [world.put({"prompt": each, "model": "llama-sql"}) for each in "abc"]
    until(lambda: len(world.model.asked) == 3)
    table.start()
    until(lambda: world.backlog() == 0)
    rows = {row[0]: row[1:] for row in table.rows()}
    assert set(rows) == {f"summaries/{each}" for each in numbers}
    assert len(table.rows()) == 3
    model, answered, response = rows[f"summaries/{numbers[0]}"]
    assert (model, json.loads(response)) == ("llama-sql", {"said": "a"})
    assert abs(float(answered) - time.time()) < 60
    worker.kill()
    # the same message again: a new server of Pub/Sub counts from the same first id
    other = PubSub(world.folder)
    try:
        other.environment["BIGQUERY_EMULATOR_HOST"] = table.address
        assert other.put({"prompt": "a"}) == numbers[0]
        second = other.work(results=RESULTS)
        until(lambda: other.backlog() == 0)
        assert second.metric('gke_inference_stream_messages_total{outcome="answered"') == 1
    finally:
        other.stop()
    assert len(table.rows()) == 3


def test_a_row_that_does_not_fit_the_table_is_reported_with_its_column(
    world: PubSub, new_table: Callable[[list[dict[str, str]]], Table]
) -> None:
    table = new_table([each for each in COLUMNS if each["name"] != "answered"])
    table.start()
    world.environment["BIGQUERY_EMULATOR_HOST"] = table.address
    worker = world.work(results=RESULTS)
    world.put({"prompt": "a"})
    until(lambda: any("does not fit" in each.get("why", "") for each in worker.lines()))
    why = next(each["why"] for each in worker.lines() if "does not fit" in each.get("why", ""))
    assert why.endswith("the row does not fit the table: answered: HTTP 400")
    assert table.rows() == []
