"""The object storage of a twin: fake-gcs-server, started on first use."""

import http.client
import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from twin.host.loopback_server import LoopbackServer, Ports
from twin.host.paths import TwinPaths
from twin.toolchain import named, provide, tool
from twin.wire.property_values import CloudError, Json

NAME: Final = "fake-gcs-server"


def _command(paths: TwinPaths, ports: Ports) -> list[str]:
    (port,) = ports
    paths.gcs.mkdir(parents=True, exist_ok=True)
    provide(named([NAME]))
    return [
        str(tool(NAME)),
        f"--address=127.0.0.1:{port}",
        f"--folder={paths.gcs}",
    ]


_SERVER: Final = LoopbackServer(NAME, _command)


def runs(paths: TwinPaths) -> bool:
    """Return whether the server runs."""
    return _SERVER.running(paths) is not None


def url(paths: TwinPaths) -> str:
    """Return the server's URL (`STORAGE_EMULATOR_HOST`), after starting it if needed.

    Raises:
        processes.ProcessError: the server did not start.
        twin.toolchain.ToolError: the server cannot be obtained.
    """
    return f"http://{_SERVER.address(paths)}"


def repair(paths: TwinPaths) -> None:
    """Restart the server with its data and port if it ran before and ended."""
    _SERVER.repair(paths)


def _request(
    paths: TwinPaths,
    method: str,
    path: str,
    body: bytes | None = None,
    content_type: str = "application/json",
) -> tuple[int, bytes]:
    host = url(paths).removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=30)
    try:
        connection.request(method, path, body=body, headers={"Content-Type": content_type})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def _expect(status: int, body: bytes, *allowed: int) -> None:
    if status >= 400 and status not in allowed:
        raise CloudError(status, body.decode(errors="replace").strip()[:300], "storage")


def create_bucket(paths: TwinPaths, name: str, project: str) -> None:
    """Create a bucket; leave an existing one unchanged."""
    body = json.dumps({"name": name}).encode()
    status, answer = _request(paths, "POST", f"/storage/v1/b?project={quote(project)}", body)
    _expect(status, answer, 409)


def has_bucket(paths: TwinPaths, name: str) -> bool:
    """Return whether a bucket exists."""
    status, answer = _request(paths, "GET", f"/storage/v1/b/{quote(name)}")
    _expect(status, answer, 404)
    return status < 400


def objects(paths: TwinPaths, bucket: str) -> Iterator[Json]:
    """Yield the objects of a bucket; none if the bucket does not exist."""
    token = ""
    while True:
        query = f"?pageToken={quote(token)}" if token else ""
        status, answer = _request(paths, "GET", f"/storage/v1/b/{quote(bucket)}/o{query}")
        _expect(status, answer, 404)
        if status == 404:
            return
        page: dict[str, Any] = json.loads(answer)
        yield from page.get("items") or []
        token = page.get("nextPageToken", "")
        if not token:
            return


def has_object(paths: TwinPaths, bucket: str, name: str) -> bool:
    """Return whether an object exists."""
    where = f"/storage/v1/b/{quote(bucket)}/o/{quote(name, safe='')}"
    status, answer = _request(paths, "GET", where)
    _expect(status, answer, 404)
    return status < 400


def read(paths: TwinPaths, bucket: str, name: str) -> bytes:
    """Return the content of an object.

    Raises:
        CloudError: it does not exist.
    """
    where = f"/storage/v1/b/{quote(bucket)}/o/{quote(name, safe='')}?alt=media"
    status, answer = _request(paths, "GET", where)
    _expect(status, answer)
    return answer


def upload(paths: TwinPaths, bucket: str, name: str, body: bytes, content_type: str) -> Json:
    """Write an object and return its metadata from the server."""
    where = f"/upload/storage/v1/b/{quote(bucket)}/o?uploadType=media&name={quote(name, safe='')}"
    status, answer = _request(paths, "POST", where, body, content_type)
    _expect(status, answer)
    return json.loads(answer)


def delete_object(paths: TwinPaths, bucket: str, name: str) -> None:
    """Delete an object; ignore a missing one."""
    where = f"/storage/v1/b/{quote(bucket)}/o/{quote(name, safe='')}"
    status, answer = _request(paths, "DELETE", where)
    _expect(status, answer, 404)


def delete_bucket(paths: TwinPaths, name: str) -> None:
    """Delete a bucket with all its objects; ignore a missing one."""
    for item in list(objects(paths, name)):
        delete_object(paths, name, str(item["name"]))
    status, answer = _request(paths, "DELETE", f"/storage/v1/b/{quote(name)}")
    _expect(status, answer, 404)
    (paths.gcs / f"{name}.bucketMetadata").unlink(missing_ok=True)  # the server leaves it
