"""The maximum needs of a stack for Google's quotas, before and after a change."""

from dataclasses import dataclass

from infra.estimate.quota_needs import Need, needs
from infra.plan import Plan


@dataclass(frozen=True)
class Asked:
    """A quota that a stack needs more or less of than before."""

    quota: str
    """Name in Google's console."""
    region: str
    """Region; empty for a quota of the whole project."""
    accelerator: str
    """Accelerator as the stack names it; empty for other quotas."""
    before: int
    """Need in the quota's unit, such as chips; 0 if it was not needed."""
    after: int


def capacity(before: Plan | None, after: Plan | None) -> tuple[Asked, ...]:
    """Return the quotas with a changed need, in the order of the stack."""
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
