"""Refuses a stack that needs more than the twin's quotas allow, before anything is created."""

from infra.quota.check import Standing, standings
from infra.quota.needs import needs
from scripts.shared.quota_limits import twin_limits
from scripts.terminal.console import CheckFailedError
from scripts.terminal.options import plan_of


def refuse_shortage(stack: str, scenario: str = "") -> None:
    """Refuse a stack that needs more than the twin's quotas allow.

    Raises:
        CheckFailedError: A quota is insufficient; the message names each, and the ways to continue.
    """
    short = [
        each for each in standings(needs(plan_of(stack)), twin_limits(scenario)) if each.short_by
    ]
    if not short:
        return
    option = f" --scenario {scenario}" if scenario else ""
    raise CheckFailedError(
        f"{stack}: insufficient quota on the twin: {'; '.join(map(_line, short))}."
        f" `gke-inference quota --stack {stack}{option}` prints the requests to make. --over-quota"
        " (OVER_QUOTA=1 of make) deploys anyway; the twin then refuses machines beyond a quota, as"
        " Google does"
    )


def _line(standing: Standing) -> str:
    need = standing.need
    limit = None if standing.limit is None else standing.limit.value
    return (
        f"{need.metric.label} in {need.region or 'all regions'} needs {need.amount}, limit {limit},"
        f" missing {standing.short_by}"
    )
