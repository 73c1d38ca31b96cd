"""What `plan --stack` proposes for one model, and how that is written to the stack."""

from dataclasses import dataclass, replace

from infra.reading.edit import Placement
from planner.advice.roles import Roles
from planner.choice.plan import Choice
from planner.choice.question import Estimate, Question
from scripts.plan.write import placement_of

TEMPORARY = ("spot", "flex-start")
"""Ways to buy whose nodes are not always on: reclaimed at short notice, or queued for and deleted
after seven days at most."""


@dataclass(frozen=True)
class Proposal:
    """Hardware of a model in all of its regions."""

    model: str
    choices: tuple[Choice, ...]
    """First rung of each region, all of the same hardware."""
    ladder: tuple[str, ...]
    """Ways to buy it, in the order in which they are tried; a region skips those it lacks."""
    question: Question
    minimum: int
    """Minimum replicas in each region, as in the stack."""
    replicas: int
    """Replicas in each region at the peak."""
    most_replicas: int
    usd_per_hour: Estimate
    """Cost at the peak, over all regions."""
    roles: Roles | None = None
    """Set if prefill and decode are disaggregated; the replicas are then decode replicas."""
    standby: "Proposal | None" = None
    """GPUs that replace the TPUs of a paired model; its `replicas` are those kept warm."""
    is_standby: bool = False
    """Whether these are such GPUs."""

    @property
    def temporary_share(self) -> float:
        """Share of the regions whose first rung is not always on."""
        return sum(one.provisioning in TEMPORARY for one in self.choices) / len(self.choices)

    @property
    def prefill_replicas(self) -> tuple[int, int] | None:
        """Fewest and most prefill replicas, if disaggregated."""
        if self.roles is None:
            return None
        return min(self.minimum, self.roles.prefill), self.roles.prefill_high

    @property
    def hardware(self) -> str:
        """Display name of the hardware with its first way to buy it."""
        form = self.choices[0].candidate.form
        split = f" {form.parallelism}" if form.experts else ""
        roles = " disaggregated" if self.roles is not None else ""
        return f"{form.label}{split} {self.choices[0].provisioning}{roles}"


def placement_for(proposal: Proposal) -> Placement:
    """Return a proposal in stack terms; everything but the hardware stays as it is."""
    first, standby = proposal.choices[0], proposal.standby
    placed = placement_of(
        proposal.question,
        first,
        proposal.ladder,
        replicas=proposal.minimum,
        most_replicas=proposal.most_replicas,
    )
    return replace(
        placed,
        is_move=True,
        fallback=None if standby is None else placement_for(standby),
        prefill_replicas=proposal.prefill_replicas,
    )
