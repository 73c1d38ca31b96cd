"""A proxy for TLS from programs of a cluster to its Services by name (HTTP CONNECT).

It does for TLS what `proxy` does for HTTP. Bytes pass unread, so that both ends keep their own TLS.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from twin.host.ports import free_port
from twin.wire.kube import JsonObject

Endpoint = Callable[[str, int, str], tuple[str, int]]
"""Returns the address of a port of a host, for a caller with `Proxy-Authorization`.

It raises LookupError if there is no such port, or ConnectionError if NetworkPolicies drop it.
"""
_PIECE_BYTES = 1 << 16
_UNREADABLE = (asyncio.IncompleteReadError, asyncio.LimitOverrunError)
"""A head that ends early, or is too long."""


def environment(folder: Path, pod: JsonObject) -> dict[str, str]:
    """Return the environment variables of a pod's program that calls Services with TLS.

    Args:
        folder: Folder of the cluster.
        pod: Pod of the program.
    """
    try:
        address = _file(folder).read_text().strip()
    except FileNotFoundError:
        return {}
    caller = f"{pod['metadata']['namespace']}:{pod['metadata']['name']}"
    return {"HTTPS_PROXY": f"http://{caller}@{address}", "NO_PROXY": "127.0.0.0/8,localhost"}


def _file(folder: Path) -> Path:
    return folder / "service-tunnel"


async def serve(folder: Path, endpoint: Endpoint) -> asyncio.Server:
    """Serve at the previous address after a restart, until the server is closed."""
    file = _file(folder)
    known = file.read_text().strip() if file.exists() else f"127.0.0.1:{free_port()}"
    host, _, port = known.partition(":")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, *_UNREADABLE):
                await _connect(reader, writer, endpoint)
        finally:
            writer.close()

    server = await asyncio.start_server(answer, host, int(port))
    file.write_text(known + "\n")
    return server


async def _connect(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoint: Endpoint
) -> None:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target = (*lines[0].split(" "), "", "")[:2]
    fields = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    host, _, port = target.rpartition(":")
    if method != "CONNECT" or not port.isdigit():
        writer.write(b"HTTP/1.1 405 Method Not Allowed\r\n\r\n")
        return
    try:
        address = endpoint(host, int(port), fields.get("proxy-authorization", ""))
        far_reader, far_writer = await asyncio.open_connection(*address)
    except (LookupError, OSError) as error:
        writer.write(f"HTTP/1.1 502 Bad Gateway\r\n\r\n{error}\n".encode())
        return
    writer.write(b"HTTP/1.1 200 Connection Established\r\n\r\n")
    await asyncio.gather(_pass_on(reader, far_writer), _pass_on(far_reader, writer))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
    except OSError:
        pass  # one end is gone, and so is the connection
    finally:
        writer.close()
