"""Rules of job queues that hold for stacks and for components."""

from collections.abc import Iterable, Iterator

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import one_of


def check_quota(where: str, quota: Iterable[str], flavors: Iterable[str]) -> Iterator[InputError]:
    """Yield the chips of a team that its queue does not have.

    Args:
        where: Path of the team's chips.
        quota: Names of the chips of the team.
        flavors: Names of the chips of the queue.
    """
    known = list(flavors)
    for name in quota:
        if name not in known:
            yield one_of(where, name, known)


def check_total(where: str, chips: int, quotas: Iterable[int]) -> Iterator[InputError]:
    """Yield the problem of a flavor with fewer chips than its teams have together.

    Args:
        where: Path of the flavor's chips.
        chips: The flavor's chips.
        quotas: Those of each team.
    """
    total = sum(quotas)
    if total > chips:
        yield InputError(where, f"must be at least the total of its teams ({total})", chips)
