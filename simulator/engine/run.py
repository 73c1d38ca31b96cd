"""Decode steps that are computed together, because nothing but the contexts changes in them."""

from dataclasses import dataclass, field

from planner.speed.roofline import StepLoad
from simulator.engine.request import Request


@dataclass
class Run:
    """Decode steps with the same batch.

    Args:
        requests: requests of the batch, in the order of the scheduler.
        begun: start time of the first step.
        context: number of KV tokens that the first step reads.
        steps: maximum number of steps, after which a request finishes or blocks can run out.
    """

    requests: list[Request]
    begun: float
    context: int
    adapters: int
    steps: int
    phases: list[list[Request]]
    """Requests by the number of computed tokens in their last block at the start of the run."""
    first: dict[Request, int]
    """Computed tokens of each request at the start of the run."""
    held_tokens: int
    """KV-cache tokens held before the first step."""
    ends: list[float] = field(default_factory=list[float])
    loads: list[StepLoad] = field(default_factory=list[StepLoad])
    done: int = 0

    def next_load(self) -> StepLoad:
        """Return the work of the step after the computed ones.

        Each step reads one more token of every sequence, and some start a block.
        """
        step = len(self.ends)
        count, size = len(self.requests), len(self.phases)
        context = self.context + step * count
        self.held_tokens += len(self.phases[-step % size]) * size
        return StepLoad(
            0,
            count,
            context,
            context,
            adapters=self.adapters,
            distinct_tokens=self.held_tokens,
        )
