"""Host names that only the twin knows: where they lead, and who vouches for their certificates."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Host:
    """Where a host name leads."""

    address: str
    authority: Path
    """Certificates of those who may vouch for it."""

    def context(self) -> ssl.SSLContext:
        """Return the TLS settings of a client that trusts the authority."""
        return ssl.create_default_context(cafile=str(self.authority))


_known: dict[str, Host] = {}


def lead(outputs: dict[str, Any], authority: Path) -> None:
    """Lead the host name of a stack on the twin to its front, or to the gateway of a region.

    Args:
        outputs: Outputs of the stack; nothing happens where its endpoint is an address.
        authority: Certificates of those who vouch for the twin's.
    """
    name = urlsplit(str(outputs["endpoint"])).hostname or ""
    addresses = [str(each) for each in outputs.get("addresses", {}).values()]
    address = outputs.get("front") or next(iter(addresses), None)
    if address is not None and name not in addresses:
        _known[name] = Host(str(address), authority)


def save(endpoint: str, file: Path) -> None:
    """Write where the host of a URL leads, for commands after this one."""
    known = host_of(endpoint)
    file.unlink(missing_ok=True)
    if known is not None:
        file.write_text(f"{known.address}\n{known.authority}\n")


def lead_again(file: Path, endpoint: str) -> None:
    """Lead the host of a URL as the command that wrote the file did; nothing without a file."""
    if file.exists():
        address, authority = file.read_text().splitlines()
        _known[urlsplit(endpoint).hostname or ""] = Host(address, Path(authority))


def host_of(url: str) -> Host | None:
    """Return where the host of a URL leads; None where the system's DNS knows."""
    return _known.get(urlsplit(url).hostname or "")
