"""What a stack can ask of Google's quotas at most, before and after a change."""

from dataclasses import dataclass

from infra.plan import Plan
from infra.quota.needs import Need, needs


@dataclass(frozen=True)
class Asked:
    """One quota of which a stack asks more or less than before."""

    quota: str
    """As Google's console names it."""
    region: str
    """Empty for a quota of the whole project."""
    accelerator: str
    """The stack's word for it; empty where the quota is of something else."""
    before: int
    """In the quota's unit, such as chips; 0 where it was not asked for."""
    after: int


def capacity(before: Plan | None, after: Plan | None) -> tuple[Asked, ...]:
    """Return the quotas asked for more or less than before, in the order of the stack."""
    old, new = (_by_key(plan) for plan in (before, after))
    rows = (_asked(old.get(key), new.get(key)) for key in dict.fromkeys([*new, *old]))
    return tuple(row for row in rows if row.before != row.after)


def _by_key(plan: Plan | None) -> dict[tuple[str, str], Need]:
    found = () if plan is None else needs(plan)
    return {(need.metric.label, need.region or ""): need for need in found}


def _asked(old: Need | None, new: Need | None) -> Asked:
    need = new or old
    if need is None:
        raise ValueError("a quota: must be asked for by one of the two, got neither")
    return Asked(
        quota=need.metric.label,
        region=need.region or "",
        accelerator=need.accelerator or "",
        before=0 if old is None else old.amount,
        after=0 if new is None else new.amount,
    )
