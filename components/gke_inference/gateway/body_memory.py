"""Memory of the programs that hold request bodies: the body router, the client gate and the relay.

They share one implementation of these limits (workloads/gateway/internal/holding). All limits
follow from the memory limit of the container: what clients can fill, with the program itself and
its garbage, stays below it.
"""

from dataclasses import dataclass

from gke_inference.catalogue.load_balancing import MAX_BODY_BYTES

_HEAP = 0.8
"""Share of the container's memory that the Go runtime may take (`GOMEMLIMIT`). The rest is for the
kernel's buffers of connections, which count towards the container."""
_LIVE = 0.8
"""Share of that memory that is in use at most. The rest is garbage that is not yet collected."""
_BASE_MIB = 32
"""A program without requests, and one body that is joined from its pieces."""
_FREE_KIB = 64
"""First part of each body, which counts only as a body, so that large bodies never keep out a small
one."""
_TRANSPORT_KIB = 64
"""What the transport holds of a body before the program reads it."""
_OF_ONE = 0.4
"""Share of the memory for bodies that one client can have."""
_STEP_MIB = 16


@dataclass(frozen=True)
class BodyMemory:
    """Limits of one replica.

    Attributes:
        limit_mib: Memory limit of its container.
        bodies: Most bodies that it holds at a time.
        bodies_of_one: Most bodies of one client.
        copies: Copies of the first part of a body that exist while the program works on it.
    """

    limit_mib: int
    bodies: int
    bodies_of_one: int
    copies: int = 0

    @property
    def heap_mib(self) -> int:
        """Memory at which the Go runtime collects garbage regardless of its growth."""
        return int(self.limit_mib * _HEAP)

    @property
    def held_mib(self) -> int:
        """Most memory of bodies, beyond the first part of each, with their copies."""
        small_kib = self.bodies * (_FREE_KIB * (1 + self.copies) + _TRANSPORT_KIB)
        left = self.limit_mib * _HEAP * _LIVE - _BASE_MIB - small_kib / 1024
        return int(left // _STEP_MIB) * _STEP_MIB

    @property
    def held_mib_of_one(self) -> int:
        """Most of this memory that one client has."""
        return int(self.held_mib * _OF_ONE // _STEP_MIB) * _STEP_MIB

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of the program."""
        return (
            f"--max-bodies={self.bodies}",
            f"--max-bodies-per-client={self.bodies_of_one}",
            f"--max-body-bytes={MAX_BODY_BYTES}",
            f"--max-held-bytes={self.held_mib << 20}",
            f"--max-held-bytes-per-client={self.held_mib_of_one << 20}",
        )

    @property
    def environment(self) -> list[dict[str, str]]:
        """Environment of the program."""
        return [{"name": "GOMEMLIMIT", "value": f"{self.heap_mib}MiB"}]


ROUTER = BodyMemory(limit_mib=512, bodies=1024, bodies_of_one=256)
"""Its clients are addresses: it runs before clients are identified."""
CLIENT_GATE = BodyMemory(limit_mib=1024, bodies=512, bodies_of_one=256, copies=5)
"""Its clients are teams, and the addresses of callers without a credential. It also holds answers
that guards check as a whole. A guard's check, or the cache, needs 5 copies of a body."""
RELAY = BodyMemory(limit_mib=1024, bodies=512, bodies_of_one=256, copies=3)
"""Its clients are teams, or all clients as one where no gate names their team. It holds bodies,
and 3 copies of each, until a target answers."""
