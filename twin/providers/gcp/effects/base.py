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
    """What effects and operations work on."""

    paths: TwinPaths
    store: Store
    events: Events

    @property
    def rules(self) -> Rules:
        """The rules at the twin's speed."""
        return Rules.of(self.paths)


def pool_timeout(world: World) -> float:
    """Return how many seconds the nodes of a pool may take: the provider's limit, and a margin."""
    return world.rules.scaled("cloud.timeout.container/nodePool") + _MARGIN_SECONDS


class Effect:
    """What happens beside the store; by itself nothing.

    Every method can run again after a crash, so it takes what it finds. Errors are `CloudError`
    where Google would refuse, and whatever the twin's own parts raise.
    """

    def create(self, world: World, record: Record) -> Json:
        """Bring the resource into being and return outputs to add."""
        del world, record
        return {}

    def update(self, world: World, record: Record, outputs: Json) -> Json:
        """Bring a change about and return outputs to add; `record` is as it was before."""
        del world, record, outputs
        return {}

    def check_delete(self, world: World, record: Record) -> None:
        """Refuse a deletion that Google would refuse."""
        del world, record

    def delete(self, world: World, record: Record) -> None:
        """Take the resource out of the world; one that is not there is no error."""
        del world, record

    def exists(self, world: World, record: Record) -> bool:
        """Say whether the resource still is there (drift)."""
        del world, record
        return True
