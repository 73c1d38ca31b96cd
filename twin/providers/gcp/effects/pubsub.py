"""Topics and subscriptions: one server for the whole twin, started on first use."""

import http.client
import json
from typing import Final

from twin.host import processes
from twin.host.locks import exclusive
from twin.host.paths import TwinPaths
from twin.host.ports import are_released, free_port, free_ports, listens
from twin.providers.gcp.effects.base import Effect, World
from twin.providers.gcp.iam import endpoint
from twin.providers.gcp.iam.principals import Principal, split
from twin.providers.gcp.resources.pubsub import SUBSCRIPTION, TOPIC, check_subscription, grants
from twin.toolchain import named, provide, tool
from twin.wire.property_values import CloudError, Json
from twin.world.store import Record, Store

NAME: Final = "pubsub"
_LOOPBACK: Final = "127.0.0.1"
_CALLERS: Final = "pubsub-callers.json"
_DELIVERED: Final = (
    "ackDeadlineSeconds",
    "deadLetterPolicy",
    "enableMessageOrdering",
    "messageRetentionDuration",
    "retainAckedMessages",
    "retryPolicy",
    "topic",
)
"""Subscription fields that the server supports; exports and pushes deliver nothing on the twin."""


def address(paths: TwinPaths) -> str | None:
    """Return `HOST:PORT` of the API (`PUBSUB_EMULATOR_HOST`); None if it does not run."""
    found = None if processes.pid_of(paths, NAME) is None else _saved(paths)
    return None if found is None else f"{_LOOPBACK}:{found['api']}"


def address_for(paths: TwinPaths, caller: Principal) -> str | None:
    """Return the API's `HOST:PORT` for one caller, whose permissions it checks.

    Returns None if the server does not run. A caller keeps its port.
    """
    if address(paths) is None:
        return None
    with exclusive(paths.root / "pubsub.lock"):
        callers = _saved_callers(paths)
        if caller.path not in callers:
            callers[caller.path] = free_port()
            _open(paths, caller, callers[caller.path])
            (paths.root / _CALLERS).write_text(json.dumps(callers))
    return f"{_LOOPBACK}:{callers[caller.path]}"


def metrics_address(paths: TwinPaths) -> str | None:
    """Return `HOST:PORT` of the metrics; None if the server never ran."""
    found = _saved(paths)
    return None if found is None else f"{_LOOPBACK}:{found['admin']}"


def repair(paths: TwinPaths) -> None:
    """Restart the server, without its messages, if it ran before and ended."""
    if _saved(paths) is not None:
        _ensure(paths)


class TopicEffect(Effect):
    """A topic of the server."""

    def create(self, world: World, record: Record) -> Json:
        """Create the topic."""
        _call(world.paths, "PUT", record.id, {})
        return {}

    def delete(self, world: World, record: Record) -> None:
        """Delete the topic."""
        _call(world.paths, "DELETE", record.id, {})


class SubscriptionEffect(Effect):
    """A subscription of the server."""

    def create(self, world: World, record: Record) -> Json:
        """Create the subscription."""
        _call(
            world.paths, "PUT", record.id, _delivered(record, {**record.outputs, **record.inputs})
        )
        return {}

    def update(self, world: World, record: Record, outputs: Json) -> Json:
        """Change the subscription and keep its messages."""
        check_subscription(outputs)
        _call(world.paths, "PUT", record.id, _delivered(record, outputs))
        return {}

    def delete(self, world: World, record: Record) -> None:
        """Delete the subscription with its messages."""
        _call(world.paths, "DELETE", record.id, {})


class MemberEffect(Effect):
    """An IAM grant, from which the server knows the permissions of Pub/Sub's service agent."""

    def create(self, world: World, record: Record) -> Json:
        """Update the server."""
        del record
        _grant(world.paths, world.store)
        return {}

    def delete(self, world: World, record: Record) -> None:
        """Update the server."""
        _grant(world.paths, world.store, record.id)


def _delivered(record: Record, values: Json) -> Json:
    found = {key: values[key] for key in _DELIVERED if values.get(key) is not None}
    topic = str(found["topic"])
    if "/" not in topic:
        found["topic"] = f"{record.id.partition('/subscriptions/')[0]}/topics/{topic}"
    return found


def _grant(paths: TwinPaths, store: Store, *without: str) -> None:
    _ensure(paths)
    _request(paths, "PUT", "/grants", grants(store, without))


def _saved(paths: TwinPaths) -> dict[str, int] | None:
    try:
        return json.loads((paths.root / "pubsub.json").read_text())
    except (FileNotFoundError, ValueError):
        return None


def _saved_callers(paths: TwinPaths) -> dict[str, int]:
    """Return the ports of callers, by the prefix of the caller."""
    try:
        return json.loads((paths.root / _CALLERS).read_text())
    except (FileNotFoundError, ValueError):
        return {}


def _ensure(paths: TwinPaths) -> None:
    paths.root.mkdir(parents=True, exist_ok=True)
    with exclusive(paths.root / "pubsub.lock"):
        if processes.pid_of(paths, NAME) is not None:
            return
        ports = _saved(paths)
        known = [*(ports or {}).values(), *_saved_callers(paths).values()]
        if ports is None or not are_released(known):
            api, admin = free_ports(2)
            ports = {"api": api, "admin": admin}
            (paths.root / _CALLERS).unlink(missing_ok=True)
        (paths.root / "pubsub.json").write_text(json.dumps(ports))
        provide(named([NAME]))
        where = [f"{_LOOPBACK}:{ports[name]}" for name in ("api", "admin")]
        argv = [str(tool(NAME)), "--address", where[0], "--admin-address", where[1]]
        wanted = list(ports.values())
        processes.ensure(paths, NAME, argv, ready=lambda: all(map(listens, wanted)))
        _restore(paths)


def _restore(paths: TwinPaths) -> None:
    """Create the twin's topics, subscriptions and addresses of callers on a new server."""
    for path, port in _saved_callers(paths).items():
        caller, _ = split(path)
        if caller is not None:
            _open(paths, caller, port)
    if not paths.cloud_db.exists():
        return
    store = Store(paths.cloud_db)
    for record in store.find(TOPIC):
        _request(paths, "PUT", f"/v1/{record.id}", {})
    for record in store.find(SUBSCRIPTION):
        if record.status == "ready":
            _request(paths, "PUT", f"/v1/{record.id}", _delivered(record, record.outputs))
    _request(paths, "PUT", "/grants", grants(store))


def _open(paths: TwinPaths, caller: Principal, port: int) -> None:
    """Give a caller its address."""
    check = f"{endpoint.url(paths, caller)}/check"
    _request(paths, "PUT", "/callers", {"address": f"{_LOOPBACK}:{port}", "check": check})


def _call(paths: TwinPaths, method: str, resource: str, body: Json) -> None:
    _ensure(paths)
    _request(paths, method, f"/v1/{resource}", body)


def _request(paths: TwinPaths, method: str, path: str, body: object) -> None:
    connection = http.client.HTTPConnection(metrics_address(paths) or "", timeout=30)
    try:
        connection.request(method, path, body=json.dumps(body))
        response = connection.getresponse()
        text = response.read().decode(errors="replace").strip()
    finally:
        connection.close()
    if response.status >= 400:
        raise CloudError(response.status, text, "invalid")
