"""The server through which pods reach Cloud Storage, with the roles of their identity.

`python -m twin.providers.gcp.endpoints.server ROOT PORT` serves. A path is the caller's prefix
and the path of the API. Content passes through in pieces. `/check` below a prefix answers for
servers that pods reach directly: 204 if the caller has the permission, 403 otherwise.
"""

import http.client
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, urlsplit

from twin.host.own_callers import OwnHttpServer
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import gcs
from twin.providers.gcp.endpoints import cloud_storage
from twin.providers.gcp.iam import grants
from twin.providers.gcp.iam.principals import Principal, split
from twin.wire.http_answers import Answers
from twin.wire.property_values import CloudError

_LOOPBACK: Final = "127.0.0.1"
_PIECE: Final = 1 << 20
_SECONDS: Final = 300.0
_OF_CONNECTION: Final = frozenset(
    ("connection", "content-length", "date", "host", "keep-alive", "server", "transfer-encoding")
)
_KINDS: Final = {"subscriptions": grants.SUBSCRIPTION, "topics": grants.TOPIC}


class _Handler(Answers):
    disable_nagle_algorithm = True  # a short body would wait 40 ms behind its headers
    paths: TwinPaths
    permissions: grants.Permissions
    _behind: http.client.HTTPConnection | None = None

    def do_GET(self) -> None:
        """Answer a request."""
        caller, path = split(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        try:
            if "Transfer-Encoding" in self.headers:
                self.close_connection = True
                raise CloudError(411, "the twin reads only bodies of a known length", "required")
            if caller is None:
                text = "Anonymous caller does not have access to the Google Cloud project."
                raise CloudError(401, text, "required")
            if path.startswith("/check?"):
                self._check(caller, path)
                return
            request = cloud_storage.Request(self.command, path)
            self._allow(caller, request)
        except CloudError as error:
            for _ in self._body(size):  # a client reads an answer only after it has sent everything
                pass
            self._refuse(error)
            return
        self._forward(caller, request, size)

    do_DELETE = do_HEAD = do_PATCH = do_POST = do_PUT = do_GET

    def finish(self) -> None:
        """Close the connection to the server behind this one, too."""
        super().finish()
        self._drop()

    def _check(self, caller: Principal, path: str) -> None:
        query = parse_qs(urlsplit(path).query)
        permission, resource = query["permission"][0], query["resource"][0]
        kind = _KINDS[resource.split("/")[2]]
        is_allowed = self.permissions.allows(caller, permission, kind, resource)
        self.reply(204 if is_allowed else 403, "text/plain", b"")

    def _allow(self, caller: Principal, request: cloud_storage.Request) -> None:
        """Reject a request without permission; for a missing bucket, the server has the error."""

        def may(permission: str, bucket: str) -> bool:
            return self.permissions.allows(caller, permission, grants.BUCKET, bucket) or (
                bucket != "" and not gcs.has_bucket(self.paths, bucket)
            )

        def has_object(bucket: str, name: str) -> bool:
            return gcs.has_object(self.paths, bucket, name)

        cloud_storage.check(request, may, has_object, caller.name)

    def _body(self, size: int) -> Iterator[bytes]:
        while size > 0:
            piece = self.rfile.read(min(size, _PIECE))
            if not piece:
                return
            size -= len(piece)
            yield piece

    def _forward(self, caller: Principal, request: cloud_storage.Request, size: int) -> None:
        """Pass a request on, and its response back."""
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _OF_CONNECTION}
        if not request.is_of_content:
            headers = {k: v for k, v in headers.items() if k.lower() != "accept-encoding"}
        if size or self.command in ("PATCH", "POST", "PUT"):
            headers["Content-Length"] = str(size)
        try:
            behind = self._connection()
            behind.request(self.command, request.path, self._body(size) if size else None, headers)
            response = behind.getresponse()
        except (OSError, http.client.HTTPException):
            self._drop()
            self.close_connection = True
            self._refuse(CloudError(503, "We encountered an internal error.", "backendError"))
            return
        try:
            self._pass_back(caller, request, response)
        except (OSError, http.client.HTTPException):  # either end is gone
            self._drop()
            self.close_connection = True

    def _pass_back(
        self,
        caller: Principal,
        request: cloud_storage.Request,
        response: http.client.HTTPResponse,
    ) -> None:
        is_empty = self.command == "HEAD" or response.status in (204, 304)
        is_description = not request.is_of_content and "json" in response.headers.get_content_type()
        size = response.length
        content = b""
        if is_description and not is_empty:  # its links name the server behind this one
            links = gcs.url(self.paths).encode(), self._base(caller).encode()
            content = response.read().replace(*links)
            size = len(content)
        self.send_response_only(response.status, response.reason)
        for key, value in response.headers.items():
            if key.lower() not in _OF_CONNECTION:
                self.send_header(key, value)
        if is_empty:
            if (said := response.headers.get("Content-Length")) is not None:
                self.send_header("Content-Length", said)
        elif size is None:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(size))
        self.end_headers()
        if content:
            self.wfile.write(content)
        elif not is_empty:
            self._copy(response, is_chunked=size is None)
        response.read()  # leaves the connection ready for the next request

    def _copy(self, response: http.client.HTTPResponse, *, is_chunked: bool) -> None:
        buffer = memoryview(bytearray(_PIECE))
        while count := response.readinto(buffer):
            if is_chunked:
                self.wfile.write(f"{count:x}\r\n".encode())
            self.wfile.write(buffer[:count])
            if is_chunked:
                self.wfile.write(b"\r\n")
        if is_chunked:
            self.wfile.write(b"0\r\n\r\n")

    def _base(self, caller: Principal) -> str:
        return f"http://{_LOOPBACK}:{self.connection.getsockname()[1]}{caller.path}"

    def _connection(self) -> http.client.HTTPConnection:
        if self._behind is None:
            host = gcs.url(self.paths).removeprefix("http://")
            self._behind = http.client.HTTPConnection(host, timeout=_SECONDS)
        return self._behind

    def _drop(self) -> None:
        if self._behind is not None:
            with suppress(OSError):
                self._behind.close()
            self._behind = None

    def _refuse(self, error: CloudError) -> None:
        told = {"domain": "global", "message": error.message, "reason": error.reason}
        body = {"error": {"code": error.status, "errors": [told], "message": error.message}}
        content = json.dumps(body).encode()
        if self.command == "HEAD":
            content = b""
        self.reply(error.status, "application/json; charset=UTF-8", content)


def serve(paths: TwinPaths, port: int) -> OwnHttpServer:
    """Return a listening server; with port 0, on any free one."""
    fields = {"paths": paths, "permissions": grants.Permissions(paths.cloud_db)}
    handler = type("Handler", (_Handler,), fields)
    return OwnHttpServer((_LOOPBACK, port), handler)


if __name__ == "__main__":
    serve(TwinPaths(Path(sys.argv[1])), int(sys.argv[2])).serve_forever()
