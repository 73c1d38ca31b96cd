"""Secret Manager's data plane: a small HTTP server on a loopback port, started on first use.

It also answers for Identity-Aware Proxy (`sign_in`), and for Model Armor and the metadata server of
instances on Cloud Run (`armor_api`), and is stateless.
`python -m twin.providers.gcp.effects.secret_manager ROOT PORT` serves the methods that pods and
operators call: access, addVersion, list, get, enable, disable and destroy of versions
(docs.cloud.google.com/secret-manager/docs/reference/rest).
"""

import json
import re
import sys
from pathlib import Path
from typing import Final

from twin.host.loopback_server import LoopbackServer, served_by
from twin.host.own_callers import OwnHttpServer
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import armor_api, secret_store, sign_in
from twin.providers.gcp.iam.grants import SECRET, allows
from twin.providers.gcp.iam.principals import Principal, split
from twin.wire.http_answers import JSON, Answers
from twin.wire.property_values import CloudError, Json, as_object
from twin.world.store import Store

NAME: Final = "secret-manager"
HOST: Final = "secretmanager.googleapis.com"
_LOOPBACK: Final = "127.0.0.1"
_CODES: Final = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
_PATH: Final = re.compile(
    r"/v1/(?P<secret>projects/[^/:]+/secrets/[^/:]+)"
    r"(?:/versions(?:/(?P<version>[^/:]+))?)?(?::(?P<verb>\w+))?"
)
_SERVER: Final = LoopbackServer(NAME, served_by("twin.providers.gcp.effects.secret_manager"))
_PERMISSIONS: Final = {"addVersion": "add"}
_MOST_BYTES: Final = 1 << 20


def runs(paths: TwinPaths) -> bool:
    """Return whether the server runs."""
    return _SERVER.running(paths) is not None


def url(paths: TwinPaths) -> str:
    """Return the server's URL (`SECRET_MANAGER_ENDPOINT`), after starting it if needed.

    Raises:
        processes.ProcessError: the server did not start.
    """
    return f"http://{_SERVER.address(paths)}"


def repair(paths: TwinPaths) -> None:
    """Restart the server on its port if it ran before and ended."""
    _SERVER.repair(paths)


def is_of_versions(path: str) -> bool:
    """Return whether a call is for secret versions, which this module serves."""
    return "/versions" in path or path.endswith(":addVersion")


def answer(store: Store, method: str, path: str, body: bytes) -> tuple[int, Json]:
    """Return status and body of the response to a call."""
    caller, path = split(path)
    if armor_api.is_call(path):
        return armor_api.answer(store, caller, path, body)
    match = _PATH.fullmatch(path.partition("?")[0])
    try:
        if match is None:
            raise CloudError(404, f"The requested URL {path} was not found.", "NOT_FOUND")
        version = match["version"]
        if caller is not None:
            _check_caller(store, caller, match)
        return 200, _called(store, method, match["secret"], version, match["verb"], path, body)
    except CloudError as error:
        status = error.reason if error.reason.isupper() else _CODES.get(error.status, "UNKNOWN")
        told = {"code": error.status, "message": error.message, "status": status}
        return error.status, {"error": told}


def _check_caller(store: Store, caller: Principal, match: re.Match[str]) -> None:
    """Reject a call for which a pod's identity has no permission (rule cloud.pod-access)."""
    secret, version, verb = match["secret"], match["version"], match["verb"]
    usual = "get" if version is not None else "list"
    permission = f"secretmanager.versions.{_PERMISSIONS.get(verb, verb) if verb else usual}"
    if not allows(store, caller, permission, SECRET, secret):
        name = secret if version is None else f"{secret}/versions/{version}"
        raise secret_store.denied(permission, name)


def _called(
    store: Store,
    method: str,
    secret: str,
    version: str | None,
    verb: str | None,
    path: str,
    body: bytes,
) -> Json:
    if method == "GET" and version is not None and verb in (None, "access"):
        of = secret_store.access if verb else secret_store.show
        return of(store, secret, version)
    if method == "GET" and version is None and verb is None and "/versions" in path:
        return secret_store.listed(store, secret)
    if method == "POST" and version is None and verb == "addVersion" and "/versions" not in path:
        return secret_store.add(store, secret, _object(body))
    if method == "POST" and version is not None and verb in ("enable", "disable", "destroy"):
        return secret_store.change(store, secret, version, verb)
    raise CloudError(404, f"The requested URL {path} was not found.", "NOT_FOUND")


def _object(body: bytes) -> Json:
    try:
        found = as_object(json.loads(body or b"{}"))
    except ValueError as error:
        text = f"Invalid JSON payload received. {error}"
        raise CloudError(400, text, "INVALID_ARGUMENT") from error
    if found is None:
        raise CloudError(400, "Invalid JSON payload received.", "INVALID_ARGUMENT")
    return found


class _Handler(Answers):
    timeout = None  # Envoy keeps its connections
    any_host = (sign_in.CHECK_PATH,)
    store: Store
    paths: TwinPaths

    def do_GET(self) -> None:
        """Answer a read."""
        if self.path == sign_in.KEYS_PATH:
            self._send(200, sign_in.public_keys(self.paths))
        else:
            self._answer(b"")

    do_DELETE = do_HEAD = do_OPTIONS = do_PATCH = do_PUT = do_GET

    def do_POST(self) -> None:
        """Answer a write."""
        size = int(self.headers.get("Content-Length") or 0)
        if size > _MOST_BYTES:
            self.close_connection = True
            told = {"code": 413, "message": "Request payload is too large.", "status": "UNKNOWN"}
            self._send(413, {"error": told})
            return
        self._answer(self.rfile.read(size))

    def _check(self) -> None:
        headers = {key.lower(): value for key, value in self.headers.items()}
        found = sign_in.check(self.paths, self.store, self.path, headers)
        content = found.body.encode()
        self.send_response(found.status)
        for key, value in found.headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _answer(self, body: bytes) -> None:
        if self.path.startswith(sign_in.CHECK_PATH):
            self._check()
            return
        self._send(*answer(self.store, self.command, self.path, body))

    def _send(self, status: int, body: Json) -> None:
        self.reply(status, JSON, json.dumps(body, indent=1).encode())


def serve(paths: TwinPaths, port: int) -> OwnHttpServer:
    """Return a listening server."""
    handler = type("Handler", (_Handler,), {"store": Store(paths.cloud_db), "paths": paths})
    return OwnHttpServer((_LOOPBACK, port), handler)


if __name__ == "__main__":
    serve(TwinPaths(Path(sys.argv[1])), int(sys.argv[2])).serve_forever()
