"""Reserved addresses: loopback addresses that the gateway really binds."""

from hashlib import sha256

from twin.providers.gcp.effects.base import Effect, World
from twin.wire.property_values import CloudError, Json
from twin.world.store import Record

_PER_OCTET = 254
_OCTETS = 256


def address(root: str, number: int, second: int = 32) -> str:
    """Return the n-th address (from 1) of the twin in a folder, inside 127.32.0.0/16.

    `second` replaces the 32, for other kinds of address.

    The folder picks the third octet, so that two checkouts on one machine do not meet.
    """
    octet = (sha256(root.encode()).digest()[0] + (number - 1) // _PER_OCTET) % _OCTETS
    return f"127.{second}.{octet}.{(number - 1) % _PER_OCTET + 1}"


class AddressEffect(Effect):
    """Gives an address that no other resource of the twin has."""

    def create(self, world: World, record: Record) -> Json:
        """Return the address asked for, or the next free one."""
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
        return {"address": address(str(world.paths.root), number)}

    def check_delete(self, world: World, record: Record) -> None:
        """Refuse to free an address that says it is in use."""
        users = record.outputs.get("users")
        if users:
            raise CloudError(
                400,
                f"The address resource '{record.id}' is already being used by '{users[0]}'",
                "resourceInUseByAnotherResource",
            )
