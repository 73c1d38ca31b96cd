"""What a stack can ask of Google's quotas at most, before and after a change."""

from dataclasses import dataclass

from infra.quota.needs import Need, needs
from infra.stack import Platform


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


def capacity(before: Platform | None, after: Platform | None) -> tuple[Asked, ...]:
    """Return the quotas asked for more or less than before, in the order of the stack.

    Raises:
        InputError: a rung breaks a rule.
    """
    old, new = (_by_key(platform) for platform in (before, after))
    rows = (_asked(old.get(key), new.get(key)) for key in dict.fromkeys([*new, *old]))
    return tuple(row for row in rows if row.before != row.after)


def _by_key(platform: Platform | None) -> dict[tuple[str, str], Need]:
    found = () if platform is None else needs(platform)
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
