"""Cloud Storage's JSON API in memory, as strict as Google's where fake-gcs-server is not.

It refuses an upload to a bucket that does not exist, heeds ifGenerationMatch of compose and rewrite
as well, compares declared checksums, and copies large objects in several calls.
Sources: cloud.google.com/storage/docs/json_api/v1/objects/compose, .../rewrite, .../insert,
read 2026-11-22.
"""

import email.parser
import json
import re
import threading
import time
from contextlib import contextmanager, suppress
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast
from urllib.parse import parse_qs, unquote, urlsplit

from workloads.transfer.checksums import crc32c_of

COPIED_PER_CALL = 2**20


class Refusal(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class Cloud:
    """What the server holds, and what tests watch and disturb."""

    def __init__(self, *buckets):
        self.objects = {bucket: {} for bucket in buckets}
        self.uploaded = []
        """(bucket, object, bytes) of each finished upload, in order."""
        self.copies = []
        self.calls = []
        self.uploads_allowed = None
        """After so many uploads each further one is refused; None: no limit."""
        self.slow_after = None
        """After so many uploads each further one hangs."""
        self.begun = 0
        self.lock = threading.RLock()
        self.sessions = {}
        self.generation = 0

    def bucket(self, name):
        if name not in self.objects:
            raise Refusal(404, "The specified bucket does not exist.")
        return self.objects[name]

    def bytes_uploaded(self):
        return sum(size for _, _, size in self.uploaded)

    def put(self, bucket, name, content, query, declared=None):
        held = self.bucket(bucket)
        wanted = query.get("ifGenerationMatch")
        generation = held[name]["generation"] if name in held else 0
        if wanted is not None and int(wanted) != generation:
            raise Refusal(412, "At least one of the pre-conditions you specified did not hold.")
        crc = crc32c_of([content])
        if declared is not None and declared != crc:
            raise Refusal(400, f"Provided CRC32C {declared} doesn't match calculated {crc}.")
        self.generation += 1
        held[name] = {"content": content, "crc32c": crc, "generation": self.generation}
        return self.resource(bucket, name)

    def resource(self, bucket, name):
        held = self.bucket(bucket)
        if name not in held:
            raise Refusal(404, f"No such object: {bucket}/{name}")
        return {
            "bucket": bucket,
            "crc32c": held[name]["crc32c"],
            "generation": str(held[name]["generation"]),
            "name": name,
            "size": str(len(held[name]["content"])),
        }

    def text(self, bucket, name):
        return self.objects[bucket][name]["content"].decode()

    def names(self, bucket):
        return sorted(self.objects[bucket])


@contextmanager
def serving(cloud):
    """Yield the URL of a server over a cloud."""

    class Bound(_Handler):
        held = cloud

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    disable_nagle_algorithm = True  # an answer is two writes: the second would wait 40 ms
    protocol_version = "HTTP/1.1"
    held: Cloud

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
        pass

    def do_GET(self):
        self._answer()

    def do_POST(self):
        self._answer()

    def do_PUT(self):
        self._answer()

    def do_DELETE(self):
        self._answer()

    def _answer(self):
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        status, answer, headers = 200, None, {}
        with self.held.lock:
            self.held.calls.append(f"{self.command} {unquote(parts.path)}")
        try:
            answer, headers, status = self._route(parts.path, query, body)
        except Refusal as refusal:
            status = refusal.status
            answer = {"error": {"code": status, "message": str(refusal)}}
        content = answer if isinstance(answer, bytes) else json.dumps(answer or {}).encode()
        with suppress(ConnectionError):  # of a client that was killed
            self.send_response(status)
            for key, value in headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def _route(self, path, query, body):
        if path.startswith("/upload/"):
            return self._upload(unquote(path.split("/")[5]), query, body)
        if path.startswith("/download/"):
            _, _, _, _, _, bucket, _, name = path.split("/", 7)
            return self._download(unquote(bucket), unquote(name))
        pieces = path.removeprefix("/storage/v1/b/").split("/")
        bucket = unquote(pieces[0])
        if len(pieces) == 1:
            raise Refusal(403, "Permission 'storage.buckets.get' denied on the bucket.")
        with self.held.lock:
            if len(pieces) == 2:
                return self._list(bucket, query), {}, 200
            name = unquote(pieces[2])
            if pieces[3:4] == ["compose"]:
                return self._compose(bucket, name, query, body), {}, 200
            if pieces[3:4] == ["rewriteTo"]:
                target, new = unquote(pieces[5]), unquote(pieces[7])
                return self._rewrite(bucket, name, target, new, query), {}, 200
            if self.command == "DELETE":
                self.held.resource(bucket, name)
                del self.held.objects[bucket][name]
                return None, {}, 204
            return self.held.resource(bucket, name), {}, 200

    def _list(self, bucket, query):
        names = sorted(n for n in self.held.bucket(bucket) if n.startswith(query.get("prefix", "")))
        start = int(query.get("pageToken", 0))
        count = int(query.get("maxResults", 3))  # small pages: a reader has to turn them
        items = [self.held.resource(bucket, name) for name in names[start : start + count]]
        more = {"nextPageToken": str(start + count)} if start + count < len(names) else {}
        return {"items": items, **more}

    def _download(self, bucket, name):
        with self.held.lock:
            self.held.resource(bucket, name)
            content = self.held.objects[bucket][name]["content"]
        found = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if found is None:
            return content, {}, 200
        first, last = int(found[1]), int(found[2] or len(content) - 1)
        piece = content[first : last + 1]
        return piece, {"Content-Range": f"bytes {first}-{last}/{len(content)}"}, 206

    def _compose(self, bucket, name, query, body):
        sources = [each["name"] for each in json.loads(body)["sourceObjects"]]
        if not 1 <= len(sources) <= 32:
            raise Refusal(400, "The number of source components exceeds the maximum (32).")
        for each in sources:
            self.held.resource(bucket, each)
        content = b"".join(self.held.objects[bucket][each]["content"] for each in sources)
        return self.held.put(bucket, name, content, query)

    def _rewrite(self, bucket, name, target, new, query):
        self.held.resource(bucket, name)
        self.held.bucket(target)
        content = self.held.objects[bucket][name]["content"]
        done = min(len(content), int(query.get("rewriteToken", 0)) + COPIED_PER_CALL)
        answer = {"objectSize": str(len(content)), "totalBytesRewritten": str(done)}
        if done < len(content):
            return {**answer, "done": False, "rewriteToken": str(done)}
        resource = self.held.put(target, new, content, query)
        self.held.copies.append((bucket, target, new))
        return {**answer, "done": True, "resource": resource}

    def _upload(self, bucket, query, body):
        if query["uploadType"] == "multipart":
            kind = self.headers["Content-Type"].encode()
            message = email.parser.BytesParser().parsebytes(
                b"Content-Type: " + kind + b"\r\n\r\n" + body
            )
            described, payload = cast("list[Message]", message.get_payload())
            resource = json.loads(str(described.get_payload()))
            content = payload.get_payload(decode=True) or b""
            # the parser takes line ends for its own: cut the content out of the body itself
            mark = kind.decode().split("boundary=")[1].strip('"').encode()
            content = body.split(b"--" + mark)[2].split(b"\r\n\r\n", 1)[1][:-2]
            return self._finished(bucket, resource, content, query), {}, 200
        if self.command == "POST":
            with self.held.lock:
                self.held.bucket(bucket)
                key = str(len(self.held.sessions) + 1)
                self.held.sessions[key] = (json.loads(body or b"{}"), dict(query), bytearray())
            host = self.headers["Host"]
            where = f"http://{host}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id="
            return None, {"Location": where + key}, 200
        resource, asked, content = self.held.sessions[query["upload_id"]]
        content += body
        total = re.fullmatch(r"bytes (?:\d+-\d+|\*)/(\d+)", self.headers["Content-Range"])
        if total is not None and len(content) >= int(total[1]):
            return self._finished(bucket, resource, bytes(content), asked), {}, 200
        return None, {"Range": f"bytes=0-{len(content) - 1}"}, 308

    def _finished(self, bucket, resource, content, query):
        name = resource.get("name") or query["name"]
        is_file = not name.endswith(".json") or "/_" not in name
        with self.held.lock:
            self.held.begun += is_file
            hangs = is_file and (self.held.slow_after or self.held.begun) < self.held.begun
        if hangs:
            time.sleep(60)
        with self.held.lock:
            allowed = self.held.uploads_allowed
            if is_file and allowed is not None and len(self.held.uploaded) >= allowed:
                raise Refusal(403, "The test ends this run here.")
            answer = self.held.put(bucket, name, content, query, resource.get("crc32c"))
            if is_file:
                self.held.uploaded.append((bucket, name, len(content)))
        return answer
