"""Quotas, from the same source as `gke-inference quota`."""

from collections.abc import Iterator

from infra.estimate.quota_check import Standing, request, standings
from infra.estimate.quota_check import State as Standings
from infra.estimate.quota_needs import needs
from scripts.prerequisites.finding import Finding, Project, State, judged

_SUBJECT = "quota"


def quotas(project: Project) -> Iterator[Finding]:
    """Yield whether the quotas are sufficient, with a row for each insufficient or unknown one."""
    wanted = needs(project.plan)
    found: list[Standing] = []

    def look() -> Finding:
        found.extend(standings(wanted, project.limits()))
        good = sum(each.state not in {Standings.SHORT, Standings.UNKNOWN} for each in found)
        return Finding(
            _SUBJECT, f"{good} quotas", State.MET, "sufficient; `gke-inference quota` lists them"
        )

    yield judged(project, _SUBJECT, f"{len(wanted)} quotas", look)
    for each in found:
        where = each.need.region or "all regions"
        name = f"{each.need.metric.label} in {where}"
        if each.state is Standings.SHORT:
            limit = None if each.limit is None else each.limit.value
            says = f"needs {each.wanted:,}, limit {limit or 0:,}"
            command = request(each, project.id).command
            yield Finding(_SUBJECT, name, State.MISSING, says, command)
        elif each.state is Standings.UNKNOWN:
            says = f"needs {each.wanted:,}; the project does not report this limit"
            yield Finding(_SUBJECT, name, State.UNSEEN, says)
