"""Refuses a stack that the twin lacks something for, before anything is created."""

from collections.abc import Iterator

from infra.plan import Plan
from infra.plan.front import with_gateway
from infra.quota.check import Standing, standings
from infra.quota.needs import needs
from infra.stack import Front, Layer
from scripts.shared.quota_limits import twin_limits
from scripts.shared.scenario_files import scenario_file
from scripts.terminal.console import CheckFailedError, CommandError
from scripts.terminal.options import plan_of
from twin.cluster.gateway.named_certificates import is_active
from twin.host.paths import TwinPaths
from twin.world import scenario as scenarios
from twin.world.capacity import World
from twin.world.store import list_resources

_ZONE = "gcp:dns/managedZone:ManagedZone"


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


def refuse_absence(stack: str, paths: TwinPaths, scenario: str = "") -> None:
    """Refuse a stack whose certificate or DNS zone does not exist in the twin's cloud.

    Raises:
        CheckFailedError: One is not there; the message names it, and the ways to continue.
        CommandError: The scenario does not exist, or a file of the twin's world is invalid.
    """
    try:
        world = scenarios.load(scenario_file(scenario)).start if scenario else None
        absent = list(_absent(plan_of(stack), paths, world or World.load(paths.capacity_file)))
    except ValueError as error:
        raise CommandError(str(error)) from None
    if not absent:
        return
    lines = "; ".join(line for line, _ in absent)
    given = ", ".join(f"`{entry}`" for _, entry in absent)
    raise CheckFailedError(
        f"{stack}: the twin's cloud has {lines}. Add {given} to"
        f" {paths.capacity_file}, or start a scenario that has them"
    )


def _absent(plan: Plan, paths: TwinPaths, world: World) -> Iterator[tuple[str, str]]:
    """Yield what is not there, and the entry of the twin's world that gives it."""
    platform = plan.platform
    gateway = platform.gateway
    if platform.layer is Layer.SERVING:
        return
    name = gateway.certificate
    if name is not None and not gateway.issue_certificate:
        places = [*with_gateway(platform)]
        if gateway.front is Front.GLOBAL:
            places.append("global")
        lacking = [each for each in places if not is_active(paths, each, name, world)]
        if lacking:
            line = f"no ACTIVE certificate {name} in {', '.join(lacking)} (gateway.certificate)"
            host = gateway.hostname
            yield line, f"certificates: [{{name: {name}, hostname: {host}}}]"
    dns = gateway.dns
    if dns is not None and dns.zone not in world.zones:
        project = dns.project or platform.project
        made = [each for each in list_resources(paths) if each.type == _ZONE]
        if not any((each.name, each.project) == (dns.zone, project) for each in made):
            yield f"no zone {dns.zone} of Cloud DNS (gateway.dns)", f"zones: [{dns.zone}]"
