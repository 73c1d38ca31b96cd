"""Results of streams: a repeated answer is stored once, and an unavailable destination loses
none."""

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.running.stream.world import PubSub, until
from twin.host.ports import free_port

pytestmark = pytest.mark.needs_tools


@pytest.fixture(name="bucket")
def a_bucket(world: PubSub, tmp_path: Path) -> str:
    """The URL of a server with the bucket `answers`."""
    url = f"http://127.0.0.1:{free_port()}"
    world.start(
        "fake-gcs-server",
        *("-scheme=http", "-host=127.0.0.1", f"-port={url.rpartition(':')[2]}"),
        *("-backend=filesystem", f"-filesystem-root={tmp_path / 'gcs'}", f"-external-url={url}"),
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


class Table(HTTPServer):
    """BigQuery's `insertAll`, away for its first requests."""

    def __init__(self, away: int) -> None:
        self.asked: list[tuple[str, Any]] = []
        table = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                table.asked.append((self.path, body))
                self.send_response(503 if len(table.asked) <= away else 200)
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                del format, args

        super().__init__(("127.0.0.1", 0), Handler)


@pytest.fixture(name="table")
def a_table() -> Iterator[Table]:
    made = Table(away=2)
    threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def test_a_row_is_inserted_by_its_id_once_the_table_takes_it(world: PubSub, table: Table) -> None:
    world.environment["BIGQUERY_EMULATOR_HOST"] = f"127.0.0.1:{table.server_address[1]}"
    world.work(results={"kind": "bigquery", "table": "acme.answers.rows"})
    number = world.put({"prompt": "a", "model": "llama-sql"})
    until(lambda: world.backlog() == 0)
    time.sleep(0.1)
    assert len(table.asked) == 3
    path, body = table.asked[-1]
    assert path == "/bigquery/v2/projects/acme/datasets/answers/tables/rows/insertAll"
    ((row,),) = [body["rows"]]
    assert row["insertId"] == row["json"]["id"] == f"summaries/{number}"
    assert (row["json"]["model"], json.loads(row["json"]["response"])) == (
        "llama-sql",
        {"said": "a"},
    )
