"""Chips that hold the same models, and their share of the server's queue.

A server has one pool if each chip holds all models, and otherwise one for each model. A pool's
images wait for its chips alone, and its share of the queue is limited: a slow model, or one whose
processes have ended, delays and rejects no requests of others.
"""

import math
from collections.abc import Mapping, Sequence

from .batching import Queue
from .config import Settings
from .workers import State, Worker

_SMOOTHING = 0.2


class Pool:
    """Chips that hold the same models.

    Args:
        workers: Workers of the chips.
        limit: Maximum number of images that wait for them.
    """

    def __init__(self, workers: Sequence[Worker], limit: int) -> None:
        self.workers = workers
        self.limit = limit
        self.queue = Queue()
        self._has_started = False
        self._seconds_an_image = 1.0

    @property
    def is_broken(self) -> bool:
        """Whether no chip can load its models."""
        return all(worker.state is State.BROKEN for worker in self.workers)

    @property
    def has_started(self) -> bool:
        """Whether a chip was ready before, or none will be."""
        if any(worker.state is State.READY for worker in self.workers):
            self._has_started = True
        return self._has_started or self.is_broken

    @property
    def idle(self) -> list[Worker]:
        """Workers that can begin a batch."""
        return [worker for worker in self.workers if worker.is_idle]

    @property
    def running(self) -> int:
        """Number of images in progress."""
        return sum(len(worker.pictures) for worker in self.workers)

    @property
    def retry_seconds(self) -> int:
        """Estimated time until the queue is half empty."""
        chips = max(1, sum(worker.state is State.READY for worker in self.workers))
        return max(1, math.ceil(len(self.queue) / 2 * self._seconds_an_image / chips))

    def learn(self, seconds_an_image: float) -> None:
        """Update the duration of an image."""
        self._seconds_an_image += _SMOOTHING * (seconds_an_image - self._seconds_an_image)


def pools_of(settings: Settings, workers: Sequence[Worker]) -> Mapping[str, Pool]:
    """Return the pool of each model.

    The limit of a pool is the share of its chips, or what one request may have, whichever is more.
    """
    found: dict[str, Pool] = {}
    for models in dict.fromkeys(settings.held):
        own = [worker for worker in workers if settings.held[worker.number] == models]
        share = math.ceil(settings.queue_limit * len(own) / settings.workers)
        least = min(settings.queue_limit, settings.max_candidates)
        found |= dict.fromkeys(models, Pool(own, max(share, least)))
    return found
