"""Host names that only the twin knows: their addresses and certificate authorities."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Host:
    """Target of a host name."""

    address: str
    authority: Path
    """Certificates of its trusted authorities."""

    def context(self) -> ssl.SSLContext:
        """Return the TLS settings of a client that trusts the authority."""
        return ssl.create_default_context(cafile=str(self.authority))


_known: dict[str, Host] = {}


def lead(outputs: dict[str, Any], authority: Path) -> None:
    """Map the host name of a stack on the twin to its front or to the gateway of a region.

    Args:
        outputs: Outputs of the stack; nothing happens if its endpoint is an address.
        authority: Certificates of the twin's authority.
    """
    name = urlsplit(str(outputs["endpoint"])).hostname or ""
    addresses = [str(each) for each in outputs.get("addresses", {}).values()]
    address = outputs.get("front") or next(iter(addresses), None)
    if address is not None and name not in addresses:
        _known[name] = Host(str(address), authority)


def save(endpoint: str, file: Path) -> None:
    """Write the target of a URL's host, for later commands."""
    known = host_of(endpoint)
    file.unlink(missing_ok=True)
    if known is not None:
        file.write_text(f"{known.address}\n{known.authority}\n")


def lead_again(file: Path, endpoint: str) -> None:
    """Map the host of a URL as in the file; do nothing without a file."""
    if file.exists():
        address, authority = file.read_text().splitlines()
        _known[urlsplit(endpoint).hostname or ""] = Host(address, Path(authority))


def host_of(url: str) -> Host | None:
    """Return the target of a URL's host; None if the system's DNS resolves it."""
    return _known.get(urlsplit(url).hostname or "")
