"""A server with the calls of the Hugging Face hub that a download of a snapshot makes."""

import hashlib
import http.server
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

COMMIT = "1" * 40


@contextmanager
def serve(repository: str, folder: Path) -> Generator[str]:
    """Serve one repository, whose files are in a folder; yield the address of the hub."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

        def do_HEAD(self) -> None:
            self._answer(with_body=False)

        def do_GET(self) -> None:
            self._answer(with_body=True)

        def _answer(self, *, with_body: bool) -> None:
            path = self.path.partition("?")[0]
            file = folder / path.rpartition("/")[2]
            if path == f"/api/models/{repository}/revision/main":
                siblings = [{"rfilename": each.name} for each in folder.iterdir()]
                found = {"id": repository, "sha": COMMIT, "siblings": siblings}
                self._send(json.dumps(found).encode(), "application/json", with_body)
            elif path == f"/api/models/{repository}/tree/{COMMIT}":
                self._send(json.dumps(_tree(folder)).encode(), "application/json", with_body)
            elif path.startswith(f"/{repository}/resolve/{COMMIT}/") and file.is_file():
                self._send(file.read_bytes(), "application/octet-stream", with_body)
            else:
                self.send_error(404)

        def _send(self, body: bytes, kind: str, with_body: bool) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if with_body:
                self.wfile.write(body)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _tree(folder: Path) -> list[dict[str, object]]:
    """Return the files of the repository as the hub lists them."""
    return [
        {"type": "file", "path": each.name, "size": each.stat().st_size, "oid": "0" * 40}
        for each in sorted(folder.iterdir())
    ]
