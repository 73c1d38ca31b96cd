"""The endpoint of each region: its gateway, certificate and listed models."""

import socket
import ssl
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from gke_inference.catalogue.load_balancing import CATALOGUE_PATH
from scripts.accept.deployed import Deployed, Door, Object, seen
from scripts.accept.row import Row, Subject
from scripts.client_keys.permissions import names_of
from scripts.shared.hosts import host_of

_SECONDS: Final = 10.0


def gateways(deployed: Deployed) -> Iterator[Row]:
    """Yield whether each region's gateway is programmed and has an address."""
    for region in deployed.plan.regions:
        subject = Subject("gateway", region, "Programmed, with an address")
        yield seen(
            subject, lambda subject=subject, region=region: _gateway(deployed, subject, region)
        )


def _gateway(deployed: Deployed, subject: Subject, region: str) -> Row:
    status: Object = deployed.gateway(region).get("status", {})
    conditions: dict[str, Object] = {each["type"]: each for each in status.get("conditions", [])}
    programmed = conditions.get("Programmed", {})
    if programmed.get("status") != "True":
        return subject.not_met(f"is not Programmed: {programmed.get('message', 'no condition')}")
    return subject.met(deployed.door(region).url)


def certificates(deployed: Deployed) -> Iterator[Row]:
    """Yield whether each region's gateway presents a certificate that clients trust."""
    gateway = deployed.plan.platform.gateway
    for region in deployed.plan.regions:
        subject = Subject("certificate", region, f"trusted, for {gateway.hostname or 'no host'}")
        if gateway.certificate is None or gateway.hostname is None:
            yield subject.skipped("the stack has no gateway.certificate; the endpoint is HTTP")
            continue
        host = gateway.hostname

        def look(subject: Subject = subject, region: str = region, host: str = host) -> Row:
            door = deployed.door(region)
            port = urlsplit(door.url).port or 443
            return certificate(subject, door.address, port, host, trust_of(door.url))

        yield seen(subject, look)


def trust_of(url: str) -> ssl.SSLContext:
    """Return the authorities that a client of a URL trusts: the system's, or the twin's."""
    known = host_of(url)
    return ssl.create_default_context() if known is None else known.context()


def certificate(subject: Subject, address: str, port: int, host: str, trust: ssl.SSLContext) -> Row:
    """Return whether a server presents a certificate for a host that a client trusts.

    Args:
        subject: Subject of the row.
        address: Address of the server; the name is not resolved, since it may lead elsewhere.
        port: Its port.
        host: Name that the client asks for.
        trust: Authorities that the client trusts.
    """
    try:
        with (
            socket.create_connection((address, port), _SECONDS) as plain,
            trust.wrap_socket(plain, server_hostname=host) as secure,
        ):
            shown: Mapping[str, Any] = secure.getpeercert() or {}
    except ssl.SSLError as error:
        return subject.not_met(f"refused: {getattr(error, 'verify_message', '') or error}")
    except OSError as error:
        return subject.not_met(f"no connection to {address}:{port}: {error}")
    expires = datetime.fromtimestamp(ssl.cert_time_to_seconds(str(shown["notAfter"])), UTC)
    days = (expires - datetime.now(UTC)).days
    return subject.met(f"trusted, for {host}, expires {expires.date()} (in {days} days)")


def listings(deployed: Deployed) -> Iterator[Row]:
    """Yield whether `/v1/models` of each region lists exactly the models and adapters.

    A team that shares a host has its own path for the list.
    """
    path = deployed.plan.front.catalogue_path
    prefix = path.removesuffix(CATALOGUE_PATH)
    for region in deployed.plan.regions:
        names = names_of(deployed.plan, deployed.plan.regions[region].models)
        subject = Subject(path, region, ", ".join(deployed.offered(names)))

        def look(
            subject: Subject = subject, region: str = region, names: tuple[str, ...] = names
        ) -> Row:
            door = deployed.door(region)
            return listing(deployed, subject, replace(door, url=door.url + prefix), names)

        yield seen(subject, look)


def listing(deployed: Deployed, subject: Subject, door: Door, names: Iterable[str]) -> Row:
    """Return whether an endpoint lists exactly the models and adapters that may be asked.

    A team sees those that it may ask. The team of a key that the user has set is not known, so the
    list must be that of any team.

    Args:
        deployed: The platform.
        subject: Subject of the row.
        door: Entry point.
        names: Models and adapters that the endpoint leads to.
    """
    found = door.models(subject.subject)
    lists = [sorted(each) for each in deployed.lists(names)]
    return subject.judged(", ".join(found) or "nothing", is_met=sorted(found) in lists)
