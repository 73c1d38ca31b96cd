"""Connections of Private Service Connect: who may use a service attachment, from which address.

All rules are of docs.cloud.google.com/vpc/docs/about-controlling-access-published-services and
docs.cloud.google.com/vpc/docs/about-vpc-hosted-services (rule cloud.psc-connection).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_network
from itertools import islice
from typing import Final

from twin.providers.gcp.checks.suppress import relative_path
from twin.providers.gcp.resources.identity import COMPUTE_API, digits, project_number
from twin.providers.gcp.resources.references import (
    ATTACHMENT,
    FORWARDING_RULE,
    SUBNETWORK,
    resolve,
)
from twin.wire.property_values import Json, as_list, as_object
from twin.world.store import Record, Store

GROUP: Final = "gcp:compute/regionNetworkEndpointGroup:RegionNetworkEndpointGroup"
_TARGETS: Final = {FORWARDING_RULE: "target", GROUP: "pscTargetService"}
_UNUSABLE: Final = 2
"""Addresses at either end of a NAT subnet that no connection gets: four in all."""


class Status(StrEnum):
    """Status of a connection, the same on both sides."""

    ACCEPTED = "ACCEPTED"
    PENDING = "PENDING"
    REJECTED = "REJECTED"
    NEEDS_ATTENTION = "NEEDS_ATTENTION"
    CLOSED = "CLOSED"


_HOLDING: Final = (Status.ACCEPTED, Status.NEEDS_ATTENTION)
"""Statuses of connections that count toward the limit of their consumer."""


@dataclass(frozen=True)
class Consumer:
    """An endpoint or a backend that names a service attachment."""

    link: str
    """Self link of the forwarding rule, or of the network endpoint group."""
    project: str
    network: str
    """`projects/P/global/networks/NAME`."""


@dataclass(frozen=True)
class Connection:
    """The connection of a consumer."""

    consumer: Consumer
    status: Status
    source: str | None = None
    """Address of the NAT subnets that its traffic comes from; None if it has none."""

    @property
    def number(self) -> str:
        """Its ID, 64 bits."""
        return digits("connection", self.consumer.link, length=17)

    @property
    def is_open(self) -> bool:
        """Whether traffic can flow."""
        return self.status is Status.ACCEPTED and self.source is not None


def decide(
    attachment: Json,
    consumers: Iterable[Consumer],
    before: Mapping[str, Connection],
    addresses: Iterable[str],
) -> list[Connection]:
    """Return the connections of an attachment, in the order in which they were requested.

    Args:
        attachment: Properties of the attachment.
        consumers: Consumers that name it, oldest first.
        before: Connections by link, as they were before.
        addresses: Usable addresses of its NAT subnets, which may be many.
    """
    given = list(consumers)
    held: Counter[str] = Counter()
    statuses: dict[str, Status] = {}
    # lower limits do not affect existing connections, so these count first
    for each in sorted(given, key=lambda one: not _holds(before.get(one.link))):
        status, entry = _status(attachment, each, before.get(each.link), held)
        statuses[each.link] = status
        if status in _HOLDING:
            held[entry] += 1
    holding = [each.link for each in given if statuses[each.link] in _HOLDING]
    sources = _sources(holding, before, addresses)

    def now(link: str) -> Status:
        if statuses[link] not in _HOLDING:
            return statuses[link]
        return Status.ACCEPTED if link in sources else Status.NEEDS_ATTENTION

    return [Connection(each, now(each.link), sources.get(each.link)) for each in given]


def _holds(connection: Connection | None) -> bool:
    return connection is not None and connection.status in _HOLDING


def _status(
    attachment: Json, consumer: Consumer, before: Connection | None, held: Counter[str]
) -> tuple[Status, str]:
    """Return the status of a connection, and the entry of the list toward whose limit it counts."""
    rejected = [str(each) for each in as_list(attachment.get("consumerRejectLists")) or []]
    accepted = list(_entries(attachment))
    entry, limit = next(
        ((name, limit) for name, limit in accepted if _is_of(name, consumer)), ("", None)
    )
    is_final = attachment.get("reconcileConnections") is not True
    if before is not None and is_final and before.status is not Status.PENDING:
        return before.status, entry
    if any(_is_of(each, consumer) for each in rejected):
        return Status.REJECTED, entry
    if attachment.get("connectionPreference") == "ACCEPT_AUTOMATIC":
        return Status.ACCEPTED, entry
    if limit is None:
        return Status.PENDING, entry
    if not _holds(before) and held[entry] >= limit:
        return Status.PENDING, entry
    return Status.ACCEPTED, entry


def _entries(attachment: Json) -> Iterator[tuple[str, int]]:
    """Yield project or network of each entry of the accept list, with its limit."""
    for each in as_list(attachment.get("consumerAcceptLists")) or []:
        found = as_object(each) or {}
        name = found.get("projectIdOrNum") or found.get("networkUrl")
        yield str(name), int(str(found.get("connectionLimit") or 0))


def _is_of(entry: str, consumer: Consumer) -> bool:
    if "/" in entry:
        return relative_path(entry) == consumer.network
    return entry in (consumer.project, project_number(consumer.project))


def _sources(
    links: list[str], before: Mapping[str, Connection], addresses: Iterable[str]
) -> dict[str, str]:
    """Return the address of each connection; none for those that the subnets have none left for."""
    known = list(islice(addresses, len(links) + len(before)))
    kept = {
        link: old.source
        for link in links
        if (old := before.get(link)) is not None and old.source in known and old.source
    }
    free = iter([each for each in known if each not in kept.values()])
    new = dict(zip([link for link in links if link not in kept], free, strict=False))
    return kept | new


def nat_addresses(subnets: Iterable[Record]) -> Iterator[str]:
    """Yield the usable addresses of NAT subnets: all but four of each."""
    for subnet in subnets:
        block = ip_network(str(subnet.inputs["ipCidrRange"]))
        for at in range(_UNUSABLE, block.num_addresses - _UNUSABLE):
            yield str(block[at])


def connections(attachment: Record) -> dict[str, Connection]:
    """Return the connections of an attachment by link, as its `connectedEndpoints` has them."""
    found: dict[str, Connection] = {}
    for each in as_list(attachment.outputs.get("connectedEndpoints")) or []:
        entry = as_object(each) or {}
        link, network = str(entry["endpoint"]), relative_path(str(entry["consumerNetwork"]))
        sources = as_list(entry.get("natIps")) or []
        consumer = Consumer(link, relative_path(link).split("/")[1], network)
        source = str(sources[0]) if sources else None
        found[link] = Connection(consumer, Status(str(entry["status"])), source)
    return found


def connection_of(attachment: Record, consumer: Record) -> Connection | None:
    """Return the connection of a forwarding rule or group; None if it has not been decided."""
    return connections(attachment).get(COMPUTE_API + consumer.id)


def is_endpoint(rule: Json) -> bool:
    """Return whether a forwarding rule is an endpoint for a published service."""
    return "/serviceAttachments/" in str(rule.get("target") or "")


def settle(store: Store, changed: Mapping[str, Json] | None = None) -> None:
    """Decide about every connection, and write the result to both of its sides.

    Args:
        store: The cloud.
        changed: New properties of attachments that are being updated, by ID. Those of others that
            are being updated are decided when that is done.
    """
    new = changed or {}
    records = store.all((ATTACHMENT, *_TARGETS))
    attachments = {
        each.id: each for each in records if each.type == ATTACHMENT and each.status != "deleting"
    }
    consumers: dict[str, list[Record]] = {each: [] for each in attachments}
    for record in records:
        target = str(record.inputs.get(_TARGETS.get(record.type, "")) or "")
        if "/serviceAttachments/" not in target or record.status == "deleting":
            continue
        path = relative_path(target)
        if record.outputs.get("pscConnectionStatus") == Status.CLOSED:
            continue
        if path in consumers:
            consumers[path].append(record)
        else:
            _note(store, record, Status.CLOSED, None)
    for path, attachment in attachments.items():
        if attachment.status == "updating" and path not in new:
            continue
        _settle(store, attachment, new.get(path, attachment.outputs), consumers[path])


def _settle(store: Store, attachment: Record, values: Json, consumers: list[Record]) -> None:
    by_link = {COMPUTE_API + each.id: each for each in consumers}
    given = [Consumer(link, each.project, _network(store, each)) for link, each in by_link.items()]
    names = [str(each) for each in as_list(values.get("natSubnets")) or []]
    subnets = [
        found
        for name in names
        if (found := resolve((SUBNETWORK,), name, values, attachment.project, store)) is not None
    ]
    decided = decide(values, given, connections(attachment), nat_addresses(subnets))
    entries = [_entry(each) for each in decided]
    if entries != (as_list(attachment.outputs.get("connectedEndpoints")) or []):
        store.add_outputs(ATTACHMENT, attachment.id, {"connectedEndpoints": entries})
    for each in decided:
        _note(store, by_link[each.consumer.link], each.status, each.number)


def _entry(connection: Connection) -> Json:
    return {
        "consumerNetwork": COMPUTE_API + connection.consumer.network,
        "endpoint": connection.consumer.link,
        "natIps": [] if connection.source is None else [connection.source],
        "propagatedConnectionCount": 0,
        "pscConnectionId": connection.number,
        "status": str(connection.status),
    }


def _note(store: Store, consumer: Record, status: Status, number: str | None) -> None:
    """Write the status to a consumer; groups have no field for it."""
    if consumer.type != FORWARDING_RULE:
        return
    known = {"pscConnectionStatus": str(status)}
    if number is not None:
        known["pscConnectionId"] = number
    if any(consumer.outputs.get(key) != value for key, value in known.items()):
        store.add_outputs(consumer.type, consumer.id, known)


def _network(store: Store, consumer: Record) -> str:
    """Return the path of a consumer's network, which its subnetwork can stand for."""
    network = str(consumer.inputs.get("network") or "")
    if not network:
        name = str(consumer.inputs.get("subnetwork") or "")
        found = resolve((SUBNETWORK,), name, consumer.inputs, consumer.project, store)
        network = "" if found is None else str(found.inputs.get("network") or "")
    path = relative_path(network)
    return path if "/" in path else f"projects/{consumer.project}/global/networks/{path}"
