"""The interface of an effect."""

from dataclasses import dataclass

from twin.host.paths import TwinPaths
from twin.wire.property_values import Json
from twin.world.events import Events
from twin.world.rules import Rules
from twin.world.store import Record, Store

_MARGIN_SECONDS = 120.0  # of real time, for real processes


@dataclass(frozen=True)
class World:
    """The context of effects and operations."""

    paths: TwinPaths
    store: Store
    events: Events

    @property
    def rules(self) -> Rules:
        """The rules at the twin's speed."""
        return Rules.of(self.paths)


def pool_timeout(world: World) -> float:
    """Return the time limit for a pool's nodes, in seconds: the provider's limit and a margin."""
    return world.rules.scaled("cloud.timeout.container/nodePool") + _MARGIN_SECONDS


class Effect:
    """Changes outside the store; by default none.

    Every method can run again after a crash, so it must be idempotent. Errors are `CloudError`
    where Google would reject the call, and the errors of the twin's own parts.
    """

    def create(self, world: World, record: Record) -> Json:
        """Create the resource and return additional outputs."""
        del world, record
        return {}

    def update(self, world: World, record: Record, outputs: Json) -> Json:
        """Apply a change and return additional outputs; `record` is the previous one."""
        del world, record, outputs
        return {}

    def check_delete(self, world: World, record: Record) -> None:
        """Reject a deletion that Google would reject."""
        del world, record

    def delete(self, world: World, record: Record) -> None:
        """Delete the resource; ignore a missing one."""
        del world, record

    def exists(self, world: World, record: Record) -> bool:
        """Return whether the resource still exists (drift)."""
        del world, record
        return True
