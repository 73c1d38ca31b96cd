"""One server for `signBlob` and for signed URLs, on a loopback port, started on first use.

`python -m twin.providers.gcp.signed.server ROOT PORT` is stateless. Requests with a valid signature
are passed to the object storage of the twin.
"""

import base64
import http.client
import http.server
import json
import re
import sys
import time
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from twin.host.loopback_server import LoopbackServer, served_by
from twin.host.own_callers import OwnHttpServer
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import gcs
from twin.providers.gcp.signed.accounts import Accounts
from twin.providers.gcp.signed.v4 import Request, signer_of
from twin.wire.property_values import CloudError
from twin.world.store import Store

NAME: Final = "signed-urls"
_SERVER: Final = LoopbackServer(NAME, served_by("twin.providers.gcp.signed.server"))
_LOOPBACK: Final = "127.0.0.1"
_SIGN: Final = re.compile(r"/v1/projects/-/serviceAccounts/([^/:]+):signBlob")
_RANGE: Final = "x-goog-content-length-range"
_MOST_BYTES: Final = 200_000_000


def environment(paths: TwinPaths) -> dict[str, str]:
    """Return the variables that point a service to this server, after starting it if needed."""
    address = _SERVER.address(paths)
    return {
        "IAM_CREDENTIALS_EMULATOR_HOST": address,
        "SIGNED_URL_ENDPOINT": f"http://{address}",
    }


def repair(paths: TwinPaths) -> None:
    """Restart the server on its port if it ran before and ended."""
    _SERVER.repair(paths)


def signed_blob(accounts: Accounts, email: str, body: bytes) -> dict[str, str]:
    """Return the answer of `signBlob`."""
    try:
        payload = base64.b64decode(json.loads(body)["payload"], validate=True)
    except (ValueError, KeyError, TypeError):
        raise CloudError(400, "Invalid value at 'payload' (TYPE_BYTES)", "INVALID") from None
    return {"keyId": "twin", "signedBlob": base64.b64encode(accounts.sign(email, payload)).decode()}


def check_size(headers: "dict[str, str]", size: int) -> None:
    """Reject an upload outside the range that its URL was signed for."""
    allowed = headers.get(_RANGE)
    if allowed is None:
        return
    match = re.fullmatch(r"(\d+),(\d+)", allowed)
    if match is None:
        raise CloudError(400, f"Invalid argument: {_RANGE} must be MIN,MAX.", "InvalidArgument")
    if size < int(match[1]):
        raise CloudError(400, "Your proposed upload is too small.", "EntityTooSmall")
    if size > int(match[2]):
        raise CloudError(400, "Your proposed upload is too large.", "EntityTooLarge")


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    accounts: Accounts
    paths: TwinPaths

    def do_GET(self) -> None:
        """Read an object."""
        self._object()

    def do_PUT(self) -> None:
        """Write an object."""
        self._object()

    def do_POST(self) -> None:
        """Sign."""
        match = _SIGN.fullmatch(self.path)
        try:
            body = self._body()
            if match is None:
                raise CloudError(404, f"The requested URL {self.path} was not found.", "NOT_FOUND")
            found = signed_blob(self.accounts, match[1], body)
        except CloudError as error:
            told = {"code": error.status, "message": error.message, "status": error.reason}
            self._send(error.status, json.dumps({"error": told}).encode(), "application/json")
            return
        self._send(200, json.dumps(found).encode(), "application/json")

    def _body(self) -> bytes:
        size = int(self.headers.get("Content-Length") or 0)
        if size > _MOST_BYTES:
            self.close_connection = True
            raise CloudError(413, "Your proposed upload is too large.", "EntityTooLarge")
        return self.rfile.read(size)

    def _object(self) -> None:
        path, _, query = self.path.partition("?")
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            email = signer_of(
                Request(self.command, path, query, headers), self.accounts.public_key, time.time()
            )
            bucket, _, name = unquote(path.lstrip("/")).partition("/")
            self.accounts.check_object(email, self.command, bucket)
            body = self._body()
            if self.command == "PUT":
                check_size(headers, len(body))
            status, content, kind = self._passed(bucket, name, headers, body)
        except CloudError as error:
            told = f"<Error><Code>{error.reason}</Code><Message>{error.message}</Message></Error>"
            self._send(error.status, told.encode(), "application/xml; charset=UTF-8")
            return
        self._send(status, content, kind)

    def _passed(
        self, bucket: str, name: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, bytes, str]:
        where, method = f"b/{quote(bucket)}/o", self.command
        if method == "GET":
            url = f"/storage/v1/{where}/{quote(name, safe='')}?alt=media"
        else:
            match = headers.get("x-goog-if-generation-match")
            condition = f"&ifGenerationMatch={match}" if match is not None else ""
            url = f"/upload/storage/v1/{where}?uploadType=media&name={quote(name, safe='')}"
            url, method = url + condition, "POST"
        connection = http.client.HTTPConnection(
            gcs.url(self.paths).removeprefix("http://"), timeout=30
        )
        try:
            kind = headers.get("content-type", "application/octet-stream")
            connection.request(method, url, body=body, headers={"Content-Type": kind})
            response = connection.getresponse()
            content = response.read()
        finally:
            connection.close()
        if response.status == 412:
            text = "At least one of the pre-conditions you specified did not hold."
            raise CloudError(412, text, "PreconditionFailed")
        if response.status == 404:
            raise CloudError(404, "The specified key does not exist.", "NoSuchKey")
        kind = response.headers.get("Content-Type", "application/octet-stream")
        return response.status, content if self.command == "GET" else b"", kind

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Log nothing: URLs are credentials."""
        del format, args


def serve(paths: TwinPaths, port: int) -> OwnHttpServer:
    """Return a listening server."""
    found = {"accounts": Accounts(paths, Store(paths.cloud_db)), "paths": paths}
    return OwnHttpServer((_LOOPBACK, port), type("Handler", (_Handler,), found))


if __name__ == "__main__":
    serve(TwinPaths(Path(sys.argv[1])), int(sys.argv[2])).serve_forever()
