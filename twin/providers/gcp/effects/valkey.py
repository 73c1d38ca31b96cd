"""Memorystore for Valkey instances: each is an in-memory server with its own address."""

import shutil
from hashlib import sha256
from pathlib import Path
from typing import Final

from twin.host import processes
from twin.host.paths import TwinPaths
from twin.host.pki import make_leaf
from twin.host.ports import listens
from twin.providers.gcp.effects.address import address
from twin.providers.gcp.effects.base import Effect, World
from twin.providers.gcp.resources import memorystore
from twin.toolchain import named, provide, tool
from twin.wire.property_values import CloudError, Json
from twin.world.store import Record, Store

PROGRAM: Final = "valkey"
_SECOND_OCTET: Final = 36


def process_of(record: Record) -> str:
    """Return the name of an instance's process."""
    return f"{PROGRAM}-{record.name}-{sha256(record.id.encode()).hexdigest()[:8]}"


class ValkeyEffect(Effect):
    """The server of an instance, which runs while the instance exists."""

    def create(self, world: World, record: Record) -> Json:
        """Start the server and return its endpoint, which requires a connection."""
        if not memorystore.connections(record.inputs):
            return {"endpoints": [], "pscAutoConnections": [], "discoveryEndpoints": []}
        values = {**record.outputs, **record.inputs}
        own = _reserved(world, record)
        found = memorystore.endpoints(values, record.id, own)
        found["managedServerCas"] = _authorities(world.paths, values)
        _start(world.paths, record, values, own)
        return found

    def update(self, world: World, record: Record, outputs: Json) -> Json:
        """Check the new configuration; the server is unchanged."""
        del world, record
        memorystore.check_instance(outputs)
        return {}

    def check_delete(self, world: World, record: Record) -> None:
        """Reject the deletion while the instance is protected, which is the default."""
        del world
        if record.outputs.get("deletionProtectionEnabled") is not False:
            text = f"{record.id} is protected; set deletionProtectionEnabled to false first"
            raise CloudError(400, text, "failedPrecondition")

    def delete(self, world: World, record: Record) -> None:
        """Stop the server and lose its data."""
        processes.stop(world.paths, process_of(record))
        shutil.rmtree(_folder(world.paths, record), ignore_errors=True)


class PolicyEffect(Effect):
    """A service connection policy, which is deleted last."""

    def check_delete(self, world: World, record: Record) -> None:
        """Reject the deletion while an instance has connections of the policy."""
        memorystore.check_policy_unused(record, world.store)


def repair(paths: TwinPaths) -> None:
    """Restart ended servers, empty, on their addresses."""
    if not paths.cloud_db.exists():
        return
    store = Store(paths.cloud_db)
    for record in store.find(memorystore.INSTANCE):
        found = store.fact(f"address of {record.id}")
        if record.status == "ready" and found is not None:
            _start(paths, record, record.outputs, str(found))


def _reserved(world: World, record: Record) -> str:
    """Return the address of an instance, which is the same if its creation is retried."""
    fact = f"address of {record.id}"
    found = world.store.fact(fact)
    if found is None:
        number = world.store.next_number("valkey addresses")
        found = address(world, number, _SECOND_OCTET)
        world.store.note(fact, found)
    return str(found)


def _start(paths: TwinPaths, record: Record, values: Json, own: str) -> None:
    provide(named([PROGRAM]))
    where = f"{own}:{memorystore.PORT}"
    argv = [str(tool(PROGRAM)), "--address", where]
    if _is_encrypted(values):
        folder = _folder(paths, record)
        make_leaf(folder, "server", paths.pki / "ca", server=True, address=own)
        argv += ["--certificate", str(folder / "server.crt"), "--key", str(folder / "server.key")]
    processes.ensure(paths, process_of(record), argv, ready=lambda: listens(memorystore.PORT, own))


def _is_encrypted(values: Json) -> bool:
    return values.get("transitEncryptionMode") == "SERVER_AUTHENTICATION"


def _folder(paths: TwinPaths, record: Record) -> Path:
    return paths.pki / process_of(record)


def _authorities(paths: TwinPaths, values: Json) -> list[Json]:
    """Return the certificates that clients must trust: the twin's authority, with TLS."""
    if not _is_encrypted(values):
        return []
    certificate = (paths.pki / "ca.crt").read_text()
    return [{"caCerts": [{"certificates": [certificate]}]}]
