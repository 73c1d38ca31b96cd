"""Reserved addresses: loopback addresses that the gateway binds."""

import socket

from twin.host import addresses
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects.base import Effect, World
from twin.wire.property_values import CloudError, Json
from twin.world.store import Record, Store

_PER_OCTET = 254
_BLOCK = "block of addresses"
_WITH_ADDRESSES = ("compute/address", "compute/globalAddress", "memorystore/instance")


def hold_block(paths: TwinPaths) -> socket.socket:
    """Acquire a block of addresses that no other twin on this machine uses.

    Returns:
        A guard that holds the block while it is open.

    Raises:
        twin.host.processes.ProcessError: another twin uses the block with this twin's addresses.
    """
    store = Store(paths.cloud_db)
    known = store.fact(_BLOCK)
    wanted = addresses.preferred(paths.root) if known is None else int(known)
    block, guard = addresses.hold(wanted, only=any(store.find(kind) for kind in _WITH_ADDRESSES))
    store.note(_BLOCK, block)
    return guard


def is_own_address(paths: TwinPaths, address: str) -> bool:
    """Return whether an address is in the block of a twin's gateways, held or preferred."""
    known = Store(paths.cloud_db).fact(_BLOCK) if paths.cloud_db.exists() else None
    block = addresses.preferred(paths.root) if known is None else int(known)
    return address.startswith(f"127.32.{block}.")


def address(world: World, number: int, second: int = 32) -> str:
    """Return the n-th address (from 1) of the twin, inside 127.32.0.0/16.

    Args:
        world: world of the twin; its daemon holds the block, which is the third octet.
        number: number of the address, from 1.
        second: second octet in place of 32, for other kinds of address.
    """
    known = world.store.fact(_BLOCK)
    block = addresses.preferred(world.paths.root) if known is None else int(known)
    octet = (block + (number - 1) // _PER_OCTET) % addresses.BLOCKS
    return f"127.{second}.{octet}.{(number - 1) % _PER_OCTET + 1}"


class AddressEffect(Effect):
    """Allocation of an address that no other resource of the twin has."""

    def create(self, world: World, record: Record) -> Json:
        """Return the requested address, or the next free one."""
        wanted = record.inputs.get("address")
        if wanted:
            return {"address": wanted}
        prefix = record.inputs.get("prefixLength")
        if record.inputs.get("purpose") == "VPC_PEERING" and prefix is not None:
            number = world.store.next_number("peering ranges")
            return {"address": f"10.{200 + number % 50}.0.0", "prefixLength": prefix}
        if record.outputs.get("address"):
            return {"address": record.outputs["address"]}
        number = world.store.next_number("addresses")
        return {"address": address(world, number)}

    def check_delete(self, world: World, record: Record) -> None:
        """Refuse to release an address that is in use."""
        users = record.outputs.get("users")
        if users:
            raise CloudError(
                400,
                f"The address resource '{record.id}' is already being used by '{users[0]}'",
                "resourceInUseByAnotherResource",
            )
