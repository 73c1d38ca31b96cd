"""Servers on loopback that answer only programs of their own user, and no web page.

Every user of a machine can connect to a loopback address, and so can the pages that a browser of
this user shows: with an `Origin`, or without one after the page's host name was changed to a
loopback address (DNS rebinding).
"""

import ipaddress
import os
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

_SOCK_DIAG: Final = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY: Final = 20  # SOCK_DIAG_BY_FAMILY
_REQUEST: Final = 1  # NLM_F_REQUEST
_HEADER: Final = struct.Struct("=IHHII")  # nlmsghdr
_QUERY: Final = struct.Struct("=BBBBI")  # inet_diag_req_v2, before the socket's addresses
_PORTS: Final = struct.Struct("!HH")
_NO_COOKIE: Final = b"\xff" * 8
_UID_AT: Final = _HEADER.size + 4 + 48 + 4 * 3  # inet_diag_msg: after id, expires and two queues
_ROOT: Final = 0
Address = tuple[str, int]


def uid_of_caller(caller: Address, server: Address) -> int | None:
    """Return the user ID behind a TCP connection of this machine; None if it is not known.

    It is not known after the caller has closed its socket. The kernel then reports root, so another
    user could send a request and close.

    Args:
        caller: IPv4 address and port of the caller.
        server: address and port of the server that it called.
    """
    with suppress(OSError):
        return _asked(caller, server)
    return _listed(caller, server)


def _asked(caller: Address, server: Address) -> int | None:
    """Return the user ID that the kernel reports (sock_diag(7)).

    Raises:
        OSError: this kernel does not answer.
    """
    ends = [socket.inet_aton(host).ljust(16, b"\0") for host, _ in (caller, server)]
    body = (
        _QUERY.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF)
        + _PORTS.pack(caller[1], server[1])
        + b"".join(ends)
        + struct.pack("=I", 0)
        + _NO_COOKIE
    )
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(1)
        kernel.sendto(
            _HEADER.pack(_HEADER.size + len(body), _BY_FAMILY, _REQUEST, 0, 0) + body, (0, 0)
        )
        answer = kernel.recv(4096)
    if _HEADER.unpack_from(answer)[1] != _BY_FAMILY:
        raise OSError("sock_diag: no such socket, or not supported")
    uid, inode = struct.unpack_from("=II", answer, _UID_AT)
    return int(uid) if inode else None


def _listed(caller: Address, server: Address) -> int | None:
    """Return the user ID from the kernel's list of sockets, which is slower to read."""
    wanted = tuple(map(_in_list, (caller, server)))
    with suppress(OSError):
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
            parts = line.split()
            if (parts[1], parts[2]) == wanted:
                return int(parts[7]) if int(parts[9]) else None
    return None


def _in_list(address: Address) -> str:
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"


def is_own(caller: Address, server: Address) -> bool:
    """Return whether a caller is a program of this process' user, or of root."""
    return uid_of_caller(caller, server) in (os.getuid(), _ROOT)


def page_problem(headers: Mapping[str, str]) -> str | None:
    """Return why a request can come from a web page, or None if it cannot. Pure.

    Browsers name the page's origin in requests to other origins, and the page's own host name in
    requests that they consider its own. Programs do neither here.
    """
    if origin := headers.get("Origin"):
        return f"requests of web pages are not answered (Origin {origin})"
    host = headers.get("Host", "")
    name = host.rpartition(":")[0] if ":" in host else host
    if host and name != "localhost" and not _is_loopback(name):
        return f"Host must be a loopback address, got {host}"
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class _NoPage(BaseHTTPRequestHandler):
    """Refuses requests that a web page can send.

    `any_host` of the handler behind it has the prefixes of paths that Envoy calls, with the host
    name of its own client.
    """

    def parse_request(self) -> bool:
        """Parse a request; return False after an answer that refuses it."""
        if not super().parse_request():
            return False
        headers = {name.title(): value for name, value in self.headers.items()}
        if self.path.startswith(getattr(self, "any_host", ())):
            headers.pop("Host", None)
        problem = page_problem(headers)
        if problem is None:
            return True
        self.close_connection = True
        self.send_error(403, problem)
        return False


class OwnHttpServer(ThreadingHTTPServer):
    """An HTTP server for programs of its user; it closes other connections unread."""

    def __init__(
        self, address: Address, handler: type[BaseHTTPRequestHandler], *, pages: bool = False
    ) -> None:
        """Listen.

        Args:
            address: loopback address and port; with port 0, any free one.
            handler: answers requests.
            pages: also answer what a web page can send, for servers that want credentials.
        """
        guarded = handler if pages else type(handler.__name__, (_NoPage, handler), {})
        super().__init__(address, guarded)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Return whether the caller is a program of this user."""
        return is_own(client_address[:2], request.getsockname()[:2])
