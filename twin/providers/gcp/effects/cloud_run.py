"""Cloud Run services whose image is ours: one process each, on addresses of its own.

A service has two addresses, so that a new revision starts beside the one that has the requests.
"""

import importlib
import logging
import re
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from twin.engines.stream_worker import personal_environment
from twin.host import processes
from twin.host.paths import REPOSITORY, TwinPaths
from twin.host.ports import listens
from twin.providers.gcp.checks.suppress import relative_path
from twin.providers.gcp.effects import clients, secret_manager
from twin.providers.gcp.effects.address import address
from twin.providers.gcp.effects.base import Effect, World
from twin.providers.gcp.iam.principals import Principal
from twin.providers.gcp.resources.identity import project_number
from twin.providers.gcp.resources.references import ATTACHMENT, FORWARDING_RULE
from twin.providers.gcp.resources.service_connections import connection_of
from twin.toolchain import tool
from twin.toolchain.python_environments import PythonEnvironment
from twin.wire.property_values import CloudError, Json, as_list, as_object, get_path
from twin.world.image_names import missing_in
from twin.world.run_services import SERVICE, Place, note_place, place_of
from twin.world.store import Record, Store

_log = logging.getLogger(__name__)
_SECOND_OCTET: Final = 37
_DEFAULT_PORT: Final = 8080
_START_SECONDS: Final = 240.0
"""Maximum time of a startup probe, whichever its settings are."""
_END_SECONDS: Final = 10.0
"""Time from SIGTERM to SIGKILL (docs.cloud.google.com/run/docs/container-contract)."""
_RESERVED: Final = re.compile(r"PORT|K_SERVICE|K_REVISION|K_CONFIGURATION")
_PROGRAMS: Final[dict[str, tuple[Callable[[], PythonEnvironment], str]]] = {
    "personal": (personal_environment, "workloads.personal")
}
_RELAY: Final = "relay"
_IMAGE: Final = re.compile(rf"(?:^|/)({'|'.join([*_PROGRAMS, _RELAY])})(?:[:@][^/]*)?$")
_HTTPS: Final = 443
_ADDRESS: Final = "gcp:compute/address:Address"


def process_of(resource_id: str, name: str, revision: int) -> str:
    """Return the name of the process of a service's revision."""
    return f"{_processes_of(resource_id, name)}-{revision:05d}"


def _processes_of(resource_id: str, name: str) -> str:
    return f"run-{name}-{sha256(resource_id.encode()).hexdigest()[:8]}"


class RunServiceEffect(Effect):
    """One instance of a service, which runs while the service exists (rule cloud.run)."""

    def create(self, world: World, record: Record) -> Json:
        """Start the first revision."""
        return _deploy(world, record, {**record.outputs, **record.inputs})

    def update(self, world: World, record: Record, outputs: Json) -> Json:
        """Replace the instance by one of the next revision, if its template changed.

        If the next revision does not start, the previous one keeps the requests.
        """
        if outputs.get("template") == record.outputs.get("template"):
            return {}
        return _deploy(world, record, outputs)

    def check_delete(self, world: World, record: Record) -> None:
        """Reject the deletion while the service is protected, which is the default."""
        del world
        if record.outputs.get("deletionProtection") is not False:
            text = "cannot destroy service without setting deletion_protection=false"
            raise CloudError(400, f"{text}: {record.id}", "failedPrecondition")

    def delete(self, world: World, record: Record) -> None:
        """Stop the instance."""
        _stop_all_but(world.paths, record, None)


def repair(paths: TwinPaths) -> None:
    """Restart ended instances on their addresses; log those that do not start."""
    if not paths.cloud_db.exists():
        return
    store = Store(paths.cloud_db)
    for record in store.find(SERVICE):
        place = place_of(store, record.id)
        if record.status != "ready" or place is None:
            continue
        if processes.pid_of(paths, process_of(record.id, record.name, place.revision)) is not None:
            continue
        _stop_all_but(paths, record, None)  # which may have its address
        try:
            _start(paths, record, record.outputs, place)
        except processes.ProcessError as error:
            _log.warning("Cloud Run service %s does not start: %s", record.name, error)
            _stop_all_but(paths, record, None)


def _deploy(world: World, record: Record, values: Json) -> Json:
    container = _container(values)
    _check(world, record, container)
    if _IMAGE.search(str(container.get("image"))) is None:
        return {}
    before = place_of(world.store, record.id)
    host, revision = _host(world, record, before), _next_revision(world.store, record, before)
    port = int(get_path(container, "ports.containerPort") or _DEFAULT_PORT)
    seconds = float(str(get_path(values, "template.timeout") or "300s").removesuffix("s"))
    place = Place(host, port, revision, seconds)
    serving = None if before is None else before.revision
    _stop_all_but(world.paths, record, serving)  # of a daemon that ended while it waited
    try:
        _start(world.paths, record, values, place)
    except processes.ProcessError as error:
        _stop_all_but(world.paths, record, serving)
        text = (
            f"Revision '{_revision(record.name, place)}' is not ready and cannot serve traffic. "
            "The user-provided container failed to start and listen on the port defined provided "
            f"by the PORT={port} environment variable within the allocated timeout. {error}"
        )
        raise CloudError(400, text, "failedPrecondition") from error
    note_place(world.store, record.id, place)
    _stop_all_but(world.paths, record, revision)
    return {}


def _host(world: World, record: Record, before: Place | None) -> str:
    """Return the address of a service that its current instance does not have."""
    name = f"addresses of {record.id}"
    number = world.store.fact(name) or world.store.next_number("cloud run addresses")
    world.store.note(name, number)
    hosts = [address(world, each, _SECOND_OCTET) for each in (2 * number - 1, 2 * number)]
    return next(host for host in hosts if before is None or host != before.host)


def _next_revision(store: Store, record: Record, before: Place | None) -> int:
    """Return the number of a new revision; those that failed keep theirs."""
    name = f"last revision of {record.id}"
    revision = (store.fact(name) or (before.revision if before else 0)) + 1
    store.note(name, revision)
    return revision


def _stop_all_but(paths: TwinPaths, record: Record, revision: int | None) -> None:
    kept = None if revision is None else process_of(record.id, record.name, revision)
    prefix = _processes_of(record.id, record.name)
    names = [name for name in processes.running(paths) if name.startswith(prefix) and name != kept]
    processes.stop(paths, *names, grace=_END_SECONDS)


def _container(values: Json) -> Json:
    found = as_list(get_path(values, "template.containers")) or [{}]
    return as_object(found[0]) or {}


def _check(world: World, record: Record, container: Json) -> None:
    names = [str((as_object(each) or {}).get("name")) for each in _variables(container)]
    if reserved := sorted(name for name in names if _RESERVED.fullmatch(name)):
        text = f"The following reserved env names were provided: {', '.join(reserved)}."
        raise CloudError(400, f"template.containers[0].env: {text}", "invalid")
    image = str(container.get("image"))
    if missing_in(image, world.paths, record.project):
        raise CloudError(400, f"Image '{image}' not found.", "failedPrecondition")


def _variables(container: Json) -> list[object]:
    return list(as_list(container.get("envs")) or [])


def _start(paths: TwinPaths, record: Record, values: Json, place: Place) -> None:
    container = _container(values)
    found = _IMAGE.search(str(container.get("image")))
    if found is None:
        return
    words = [str(word) for word in as_list(container.get("args")) or []]
    if found[1] == _RELAY:
        argv = [str(tool(_RELAY)), *words, f"--address={place.host}"]
        texts = [str((as_object(each) or {}).get("value")) for each in _variables(container)]
        google = secret_manager.url(paths)
        own = {
            "GCE_METADATA_HOST": google.removeprefix("http://"),
            "MODEL_ARMOR_ENDPOINT": google + _caller(record, values).path,
            "RELAY_HOSTS": _gateways(paths, " ".join(texts)),
            "SSL_CERT_FILE": str(paths.ca_bundle),
        }
    else:
        environment, module = _PROGRAMS[found[1]]
        python = environment().install(lambda _: None) / "bin" / "python"
        argv = [str(python), "-W", "ignore", "-m", module, *words]
        own = {**clients.environment(paths, _caller(record, values)), **_signing(paths)}
    given = [as_object(each) or {} for each in _variables(container)]
    variables = {
        **own,
        **{str(each["name"]): str(each.get("value") or "") for each in given},
        "K_CONFIGURATION": record.name,
        "K_REVISION": _revision(record.name, place),
        "K_SERVICE": record.name,
        "POD_IP": place.host,  # this machine has other addresses, on which it must not listen
        "PORT": str(place.port),
        "PYTHONPATH": str(REPOSITORY),
    }
    processes.ensure(
        paths,
        process_of(record.id, record.name, place.revision),
        argv,
        variables,
        ready=lambda: listens(place.port, place.host),
        timeout=_START_SECONDS,
    )


def _gateways(paths: TwinPaths, settings: str) -> str:
    """Return the gateway behind each Private Service Connect endpoint, as a relay reads it.

    An endpoint's listener cannot refuse a connection while its gateway is lost, as Google's network
    does, so the relay calls the gateway itself (rule cloud.run.egress).

    Args:
        paths: The twin.
        settings: Settings of the relay, which call endpoints on the ports of their gateways.
    """
    store = Store(paths.cloud_db)
    rules = {each.id: each for each in store.find(FORWARDING_RULE)}
    attachments = {each.id: each for each in store.find(ATTACHMENT)}
    addresses = {each.id: each for each in store.find(_ADDRESS)}
    pairs: list[str] = []
    for rule in rules.values():
        attachment = attachments.get(relative_path(str(rule.inputs.get("target") or "")))
        connection = None if attachment is None else connection_of(attachment, rule)
        if attachment is None or connection is None or not connection.is_open:
            continue
        gateway = rules.get(relative_path(str(attachment.inputs.get("targetService"))))
        if gateway is None or not gateway.outputs.get("ipAddress"):
            continue
        given = str(rule.inputs.get("ipAddress"))
        reserved = addresses.get(relative_path(given))
        address = given if reserved is None else str(reserved.outputs.get("address"))
        called = rf"(https?)://{re.escape(address)}((?::\d+)?)\b"
        for scheme, suffix in set(re.findall(called, settings)):
            at = f"{gateway.outputs['ipAddress']}{suffix or f':{_HTTPS}'}"
            pairs.append(f"{address}{suffix}={scheme}://{at}")
    return ",".join(pairs)


def _caller(record: Record, values: Json) -> Principal:
    """Return the identity of a service's instances: Compute Engine's default without another."""
    template = as_object(values.get("template")) or {}
    usual = f"{project_number(record.project)}-compute@developer.gserviceaccount.com"
    return Principal.of_google_account(str(template.get("serviceAccount") or usual))


def _signing(paths: TwinPaths) -> dict[str, str]:
    server: Any = importlib.import_module("twin.providers.gcp.signed.server")  # it imports effects
    return server.environment(paths)


def _revision(name: str, place: Place) -> str:
    return f"{name}-{place.revision:05d}-twn"
