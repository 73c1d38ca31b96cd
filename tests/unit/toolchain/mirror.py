"""A mirror of release files on loopback, with the faults that downloads meet."""

import hashlib
import io
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Mirror:
    """Serves files by address; what it was asked for is in `requests`."""

    def __init__(self):
        self.files = {}
        self.cut_after = {}
        """Address and the number of bytes after which the first transfer of it ends."""
        self.ranges = True
        self.requests = []
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_HEAD(self):
                self.send_response(404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_GET(self):
                mirror.answer(self)

            def log_message(self, format, *args):  # noqa: A002 - the name is the base class's
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/tools"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request):
        address = "https://" + request.path.removeprefix("/tools/")
        asked = request.headers.get("Range")
        self.requests.append((address, asked))
        content = self.files.get(address)
        if content is None:
            request.send_response(404)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        begin = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.ranges else 0
        rest = content[begin:]
        request.send_response(206 if begin else 200)
        request.send_header("Content-Length", str(len(rest)))
        request.end_headers()
        cut = self.cut_after.pop(address, None)
        request.wfile.write(rest if cut is None else rest[:cut])
        request.close_connection = cut is not None

    def publish(self, download, files, checksum=None):
        """Serve a release: its archive or program, and the checksums beside it.

        Args:
            download: of `sources.downloads`.
            files: content of each program.
            checksum: what is published instead of the right one.
        """
        content = archive(download, files)
        self.files[download.address] = content
        if download.checksums:
            right = hashlib.sha256(content).hexdigest()
            line = f"{checksum or right}  {download.file_name}\n"
            before = self.files.get(download.checksums, b"") if download.members else b""
            self.files[download.checksums] = before + line.encode()
        return content


def archive(download, files):
    """Return what a download holds: a program itself, or a tar file with programs."""
    [(program, path)] = list(download.members.items())[:1]
    if not path:
        return files[program]
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as packed:
        for name, inside in download.members.items():
            entry = tarfile.TarInfo(f"./{inside}")
            entry.size = len(files[name])
            packed.addfile(entry, io.BytesIO(files[name]))
        readme = tarfile.TarInfo("README.md")
        packed.addfile(readme, io.BytesIO(b""))
    return stream.getvalue()
