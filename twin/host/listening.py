"""The listening sockets of this machine and the programs behind them, from /proc (proc(5))."""

import ipaddress
import os
import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from twin.host.paths import TwinPaths

_LISTENS = "0A"  # TCP_LISTEN
_SOCKET = re.compile(r"socket:\[(\d+)\]")
_OUTPUTS = (1, 2)


@dataclass(frozen=True, order=True)
class Listener:
    """A socket on which a program listens."""

    address: str
    """IPv4 or IPv6 address; `0.0.0.0` or `::` for all of the machine."""
    port: int
    pid: int | None = None
    """Process; None if it belongs to another user."""
    program: str = ""
    """Name of the process, at most 15 characters."""

    @property
    def is_on_loopback(self) -> bool:
        """Return whether only programs of this machine can connect."""
        address = ipaddress.ip_address(self.address)
        mapped = getattr(address, "ipv4_mapped", None)  # of a socket for both versions of IP
        return (mapped or address).is_loopback

    @property
    def is_on_all(self) -> bool:
        """Return whether it takes connections to every address of the machine."""
        return ipaddress.ip_address(self.address).is_unspecified


def listeners() -> list[Listener]:
    """Return every TCP socket of this machine on which a program listens."""
    owners = dict(_owners())
    found: list[Listener] = []
    for name in ("tcp", "tcp6"):
        with suppress(FileNotFoundError):
            for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
                parts = line.split()
                if parts[3] != _LISTENS:
                    continue
                address, _, port = parts[1].rpartition(":")
                pid = owners.get(parts[9])
                found.append(Listener(_address(address), int(port, 16), pid, _name(pid)))
    return sorted(found, key=lambda each: (each.port, each.address, each.pid or 0))


def of_twin(paths: TwinPaths) -> list[Listener]:
    """Return the sockets of a twin's programs, which write their output below its folder."""
    return [each for each in listeners() if each.pid is not None and is_of_twin(each.pid, paths)]


def is_of_twin(pid: int, paths: TwinPaths) -> bool:
    """Return whether a process of this user is a program of a twin."""
    root = paths.root.resolve()
    for number in _OUTPUTS:
        with suppress(OSError):
            if Path(os.readlink(f"/proc/{pid}/fd/{number}")).is_relative_to(root):
                return True
    return False


def _owners() -> Iterator[tuple[str, int]]:
    """Yield inode and process of the sockets that this user can see."""
    for folder in Path("/proc").glob("[0-9]*/fd"):
        with suppress(OSError):
            for handle in folder.iterdir():
                with suppress(OSError):
                    if match := _SOCKET.fullmatch(os.readlink(handle)):
                        yield match[1], int(folder.parent.name)


def _name(pid: int | None) -> str:
    with suppress(OSError):
        return "" if pid is None else Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _address(text: str) -> str:
    """Return an address of the kernel's list: words of 32 bits in the machine's byte order."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    return str(ipaddress.ip_address(struct.pack(f"={len(words)}I", *words)))
