"""Refuses a stack with unmet requirements on the twin, before anything is created."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gke_inference.catalogue.calendar_mode import late
from gke_inference.catalogue.load_balancing import CATALOGUE_PORT
from gke_inference.catalogue.rungs import Rung
from gke_inference.catalogue.versions import images
from infra.estimate.quota_check import Standing, standings
from infra.estimate.quota_needs import needs
from infra.plan import Plan
from infra.plan.streams import ANSWER_COLUMNS
from infra.reading.built import unbuilt_problem
from infra.stack import Front
from scripts.prerequisites.tables import misfit
from scripts.prerequisites.wanted import (
    disk_image,
    requested,
    reserved,
    secret_versions,
    service_accounts,
    snapshots,
    tables,
)
from scripts.shared.quota_limits import twin_limits
from scripts.shared.scenario_files import scenario_file
from scripts.terminal.console import CheckFailedError, CommandError
from scripts.terminal.options import plan_of
from twin.cluster.gateway.named_certificates import is_active, is_wide
from twin.host.listening import is_of_twin, listeners
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects.address import is_own_address
from twin.providers.gcp.resources.memorystore import PORT as STORE_PORT
from twin.world import scenario as scenarios
from twin.world.capacity import World, initial, reservation_of
from twin.world.future_reservations import REQUEST
from twin.world.image_names import is_pushed
from twin.world.store import Record, list_resources
from workloads.engine.spec import PORT as ENGINE_PORT

_ACCOUNT = "gcp:serviceaccount/account:Account"
_ZONE = "gcp:dns/managedZone:ManagedZone"


def refuse_shortage(stack: str, scenario: str = "") -> None:
    """Check that the twin's quotas are sufficient for a stack.

    Raises:
        CheckFailedError: A quota is insufficient; the message names each, and the options.
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


@dataclass(frozen=True)
class _Absent:
    """A missing resource, and the entry in the twin's world that adds it."""

    what: str
    key: str
    entry: str


def refuse_absence(stack: str, paths: TwinPaths, scenario: str = "") -> None:
    """Check that everything that a stack uses but does not create exists in the twin's cloud.

    Rule: cloud.given.

    Raises:
        CheckFailedError: Something is missing; the message names it all, and the options.
        CommandError: The scenario does not exist, or a file of the twin's world is invalid.
    """
    try:
        world = scenarios.load(scenario_file(scenario)).start if scenario else None
        plan = plan_of(stack)
        absent = list(_absent(plan, paths, world or World.load(paths.capacity_file)))
    except ValueError as error:
        raise CommandError(str(error)) from None
    if not absent:
        return
    lines = "; ".join(dict.fromkeys(each.what for each in absent))
    is_in_new_twin = not scenario and not any(_absent(plan, paths, initial()))
    way_back = "; a new twin has them: remove that file to return to it" if is_in_new_twin else ""
    raise CheckFailedError(
        f"{stack}: the twin's cloud has {lines}. {_remedy(plan, paths, absent, scenario)}"
        f"{_scenarios(plan, paths, stack)}{way_back}"
    )


def refuse_late_requests(stack: str, paths: TwinPaths, scenario: str = "") -> None:
    """Check that every reservation in calendar mode that a stack requests starts late enough.

    Requests that exist are not checked. Rule: reservation.calendar.

    Raises:
        CheckFailedError: A request is too late.
    """
    world = scenarios.load(scenario_file(scenario)).start if scenario else None
    now = (world or World.load(paths.capacity_file)).now()
    made = {record.id for record in list_resources(paths, (REQUEST,))}
    plan = plan_of(stack)
    for rung, zone in requested(plan).values():
        path = f"projects/{plan.platform.project}/zones/{zone}/futureReservations"
        period = rung.reservation_period
        if period is None or f"{path}/{rung.reservation}" in made:
            continue
        problem = late(rung.kind, period.start, now)
        if problem:
            raise CheckFailedError(
                f"{stack}: reservation {rung.reservation} in {zone} cannot be requested on "
                f"{now:%Y-%m-%d %H:%M} (date of the twin's cloud): {problem}. Choose a later "
                f"reservation_period, or set `clock: {{date: ...}}` in {paths.capacity_file}"
            )


def _remedy(plan: Plan, paths: TwinPaths, absent: list[_Absent], scenario: str) -> str:
    """Return what to write, and where.

    A new file replaces the world of a new twin, so it also needs what the stack uses of that one.
    A scenario replaces the file.
    """
    file = paths.capacity_file
    is_new = not scenario and not file.exists()
    entries: dict[str, list[str]] = {}
    for each in _absent(plan, paths, World()) if is_new else absent:
        entries.setdefault(each.key, []).append(each.entry)
    given = ", ".join(f"`{key}: [{', '.join(found)}]`" for key, found in entries.items())
    if scenario:
        return (
            f"Add {given} under `start` of a copy of {scenario_file(scenario)}, and use the path of"
            " the copy as the scenario"
        )
    if not is_new:
        return f"Add {given} to {file}"
    folder = "" if file.parent.is_dir() else f" after `mkdir -p {file.parent}`"
    return f"Write {given} to a new file {file}{folder}"


def _scenarios(plan: Plan, paths: TwinPaths, stack: str) -> str:
    """Return the option of starting a built-in scenario that has everything; empty without one."""
    able = [
        name
        for name in scenarios.names()
        if not any(_absent(plan, paths, scenarios.load(scenario_file(name)).start))
    ]
    if not able:
        return ""
    rest = f" (or {', '.join(able[1:])})" if able[1:] else ""
    return f", or run `make up STACK={stack} SCENARIO={able[0]}`{rest}, whose cloud has them"


def refuse_unbuilt(stack: str, paths: TwinPaths) -> None:
    """Check that images of ours are built where the stack has a repository for them.

    Rule: agent.image.own.

    Raises:
        CheckFailedError: An image is not built; the message names each, and the command.
    """
    plan = plan_of(stack)
    platform, placeholders = plan.platform, images()
    if platform.images is None:
        return
    references = [placeholders[name].reference for name in plan.images.unbuilt]
    if all(is_pushed(each, paths, platform.project) for each in references):
        return
    problem = unbuilt_problem(plan.images, stack, on_twin=True)
    if problem is not None:
        raise CheckFailedError(f"{stack}: {problem.sentence()}")


def refuse_busy_port(stack: str, paths: TwinPaths) -> None:
    """Check that no other program listens on a port of a stack's gateways or engines.

    Raises:
        CheckFailedError: One does; the message names each port, its program and the options.
    """
    fixed = list(_fixed_ports(stack, paths))
    busy: list[str] = []
    for each in listeners():
        uses = [
            one
            for one in fixed
            if one.port == each.port and (each.is_on_all or one.is_at(each.address))
        ]
        if not uses or (each.pid and is_of_twin(each.pid, paths)):
            continue
        what = " and of ".join(one.what for one in uses)
        by = f"PID {each.pid} ({each.program})" if each.pid else "a program of another user"
        where = "all addresses" if each.is_on_all else each.address
        settings = [one.setting for one in uses]
        remedy = f"Stop it, or {settings[0]}" if all(settings) else "Stop it"
        busy.append(
            f"port {each.port} of {what} is in use by {by}, which listens on {where}. {remedy}"
        )
    if busy:
        raise CheckFailedError(f"{stack}: {'; '.join(busy)}")


@dataclass(frozen=True)
class _FixedPort:
    """A port that the twin does not choose freely."""

    port: int
    what: str
    setting: str
    """How the user chooses another one; empty: not at all."""
    is_at: Callable[[str], bool]
    """Returns whether the twin uses the port at an address."""


def _fixed_ports(stack: str, paths: TwinPaths) -> Iterator[_FixedPort]:
    plan = plan_of(stack)
    platform, clients = plan.platform, plan.clients
    if plan.has_clusters:
        yield _FixedPort(
            platform.gateway.listening_port,
            "the gateway",
            f"set another `gateway.port` in stacks/Pulumi.{stack}.yaml",
            lambda address: is_own_address(paths, address),
        )
        redirect = platform.gateway.redirect_port
        if redirect is not None:
            yield _FixedPort(
                redirect,
                "the redirect from HTTP",
                f"set another `gateway.port` in stacks/Pulumi.{stack}.yaml",
                lambda address: is_own_address(paths, address),
            )
    if clients is not None and (clients.has_counters or clients.settings.cache is not None):
        yield _FixedPort(STORE_PORT, "the stores of counters and answers", "", lambda _: False)
    if platform.models:  # the addresses of pods are this twin's alone
        yield _FixedPort(ENGINE_PORT, "the engines' pods", "", lambda _: False)
        yield _FixedPort(CATALOGUE_PORT, "the model catalog's pods", "", lambda _: False)


def _absent(plan: Plan, paths: TwinPaths, world: World) -> Iterator[_Absent]:
    if plan.has_clusters:
        yield from _names(plan, paths, world)
    yield from _sources(plan, paths, world)
    yield from _tables(plan, world)
    yield from _reservations(plan, world)


def _names(plan: Plan, paths: TwinPaths, world: World) -> Iterator[_Absent]:
    """Yield the missing certificate and DNS zone of the gateway."""
    gateway = plan.front.gateway
    name = gateway.certificate
    entry = f"{{name: {name}, hostname: {gateway.hostname}}}"
    if name is not None and not gateway.issue_certificate and gateway.has_fleet_gateway:
        if not is_wide(paths, name, world):
            what = f"no ACTIVE certificate {name} of scope ALL_REGIONS (gateway.certificate)"
            yield _Absent(what, "certificates", f"{entry[:-1]}, region: global}}")
    elif name is not None and not gateway.issue_certificate:
        places = [*plan.front.regions]
        if gateway.front is Front.GLOBAL:
            places.append("global")
        lacking = [each for each in places if not is_active(paths, each, name, world)]
        if lacking:
            what = f"no ACTIVE certificate {name} in {', '.join(lacking)} (gateway.certificate)"
            yield _Absent(what, "certificates", entry)
    made = {(each.project, each.name) for each in list_resources(paths) if each.type == _ZONE}
    for zone in dict.fromkeys((plan.front.record_zone, plan.front.certificate_zone)):
        if zone is None or zone.name in world.zones or (zone.project, zone.name) in made:
            continue
        yield _Absent(f"no zone {zone.name} of Cloud DNS (gateway.dns)", "zones", zone.name)


def _sources(plan: Plan, paths: TwinPaths, world: World) -> Iterator[_Absent]:
    """Yield the missing snapshots, disk image, repository, secrets and service accounts."""
    platform = plan.platform
    resources = list_resources(paths)
    made = {each.id for each in resources}
    yield from _accounts(plan, resources, world)

    def is_absent(path: str) -> bool:
        return path not in made and not world.gives(path)

    for path, (model, _) in snapshots(plan).items():
        if is_absent(path):
            yield _Absent(f"no snapshot {path} (models.{model}.disk.snapshot)", "snapshots", path)
    image = disk_image(plan)
    if image is not None and is_absent(image):
        yield _Absent(f"no disk image {image} (storage.image_cache)", "images", image)
    source = None if platform.images is None else platform.images.source
    if source is not None:
        path = source.repository
        if is_absent(path):
            what = f"no repository {path} (images.build.source.repository)"
            yield _Absent(what, "build_repositories", path)
    for path, registry in secret_versions(plan).items():
        if is_absent(path):
            what = f"no secret {path} (images.pull_through.credentials.{registry})"
            yield _Absent(what, "secret_versions", path)


def _accounts(plan: Plan, resources: list[Record], world: World) -> Iterator[_Absent]:
    """Yield the missing service accounts."""
    made = {each.outputs.get("email") for each in resources if each.type == _ACCOUNT}
    for email, field in service_accounts(plan).items():
        if email not in made and email not in world.service_accounts:
            what = f"no service account {email} ({field})"
            yield _Absent(what, "service_accounts", email)


def _tables(plan: Plan, world: World) -> Iterator[_Absent]:
    """Yield the missing tables of streams, and those that take no answers."""
    given = {each.name: each.columns for each in world.tables}
    columns = ", ".join(
        f"{{name: {name}, type: {kinds[0]}}}" for name, kinds in ANSWER_COLUMNS.items()
    )
    for name, field in tables(plan).items():
        entry = f"{{name: {name}, columns: [{columns}]}}"
        if name not in given:
            yield _Absent(f"no table {name} of BigQuery ({field})", "tables", entry)
            continue
        problem = misfit((each.name, each.type, each.mode) for each in given[name])
        if problem:
            yield _Absent(f"a table {name} that {problem} ({field})", "tables", entry)


def _owner(plan: Plan, rung: Rung) -> str | None:
    """Return the project of a rung's reservation if it is not the stack's."""
    owner = rung.reservation_project
    return None if owner == plan.platform.project else owner


def _reservations(plan: Plan, world: World) -> Iterator[_Absent]:
    """Yield the missing reservations, zone by zone."""
    own = requested(plan)
    for region, rung, zone in reserved(plan):
        if (zone, rung.reservation) in own:
            continue
        name = reservation_of(rung.reservation or "", _owner(plan, rung))
        if world.has_reservation(zone, rung.accelerator, name):
            continue
        user = next(each for each in region.used_capacity if rung in each.rungs.values())
        entry = (
            f"{{zone: {zone}, accelerator: {rung.accelerator}, provisioning: reservation,"
            f" reservation: {name}, chips: unlimited}}"
        )
        what = f"no reservation {name} in {zone} (capacity.{user.name})"
        yield _Absent(what, "stock", entry)
