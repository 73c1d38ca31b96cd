"""A file on its way to Cloud Storage: in pieces, once, and not at all if it is cancelled."""

import asyncio
import base64
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import google_crc32c
import pytest

from workloads.common.bucket import Bucket, BucketError, Changed

_MIB = 2**20
SIZE = 20 * _MIB
PIECE = 8 * _MIB


class Storage(ThreadingHTTPServer):
    """The resumable uploads of Cloud Storage: an object exists after its last piece."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.begun: list[tuple[str, str]] = []
        self.pieces: list[int] = []
        self.objects: list[str] = []
        self.checksum: Any = google_crc32c.Checksum()
        self.first, self.go_on = Event(), Event()
        self.go_on.set()


class _Handler(BaseHTTPRequestHandler):
    server: Storage  # pyrefly: ignore[bad-override-mutable-attribute] - narrower

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.begun.append((self.headers["x-upload-content-type"], self.path))
        if self.server.objects and "ifGenerationMatch=0" in self.path:
            self._answer(412, {}, b"{}")
            return
        host, port = self.server.server_address[:2]
        self._answer(200, {"location": f"http://{host}:{port}/session"}, b"")

    def do_PUT(self) -> None:
        size = int(self.headers["content-length"])
        self.server.checksum.update(self.rfile.read(size))
        self.server.pieces.append(size)
        self.server.first.set()
        self.server.go_on.wait()
        sent, _, whole = self.headers["content-range"].removeprefix("bytes ").partition("/")
        end = int(sent.partition("-")[2])
        if end + 1 < int(whole):
            self._answer(308, {"range": f"bytes=0-{end}"}, b"")
            return
        self.server.objects.append("adapter")
        checksum = base64.b64encode(self.server.checksum.digest()).decode()
        found = {"name": "adapter", "generation": "1", "size": whole, "crc32c": checksum}
        self._answer(200, {"content-type": "application/json"}, json.dumps(found).encode())

    def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[Storage]:
    made = Storage()
    Thread(target=made.serve_forever, args=(0.05,), daemon=True).start()
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{made.server_port}")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "acme")
    yield made
    made.go_on.set()
    made.shutdown()
    made.server_close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "adapter"
    made.write_bytes(bytes(SIZE))
    return made


async def upload(file: Path, bucket: Bucket | None = None) -> None:
    bucket = bucket or Bucket("acme")
    await bucket.upload("adapter", file, {}, "application/octet-stream")


def test_a_file_is_uploaded_in_pieces_with_its_type(cloud: Storage, file: Path) -> None:
    asyncio.run(upload(file))
    assert cloud.pieces == [PIECE, PIECE, SIZE - 2 * PIECE]
    ((kind, path),) = cloud.begun
    assert kind == "application/octet-stream"
    assert "ifGenerationMatch=0" in path


def test_an_object_that_exists_is_not_replaced(cloud: Storage, file: Path) -> None:
    cloud.objects.append("adapter")
    with pytest.raises(Changed):
        asyncio.run(upload(file))
    assert cloud.pieces == []


def test_a_cancelled_upload_ends_after_its_piece_and_leaves_no_object(
    cloud: Storage, file: Path
) -> None:
    cloud.go_on.clear()
    bucket = Bucket("acme")

    async def cancelled() -> None:
        task = asyncio.create_task(upload(file, bucket))
        await asyncio.to_thread(cloud.first.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    cloud.go_on.set()
    bucket._threads.shutdown()
    assert (cloud.pieces, cloud.objects) == ([PIECE], [])


def test_a_file_that_is_gone_is_an_error_of_one_line(cloud: Storage, tmp_path: Path) -> None:
    with pytest.raises(BucketError, match=r"^Cloud Storage: FileNotFoundError$"):
        asyncio.run(upload(tmp_path / "gone"))
    assert cloud.begun == []
