"""Launch plan for a container of a pod as a process on this machine."""

import json
import os
import shlex
import sys
from pathlib import Path

from gke_inference.catalogue.image_contents import Missing, contents_of, missing_program
from twin.cluster.agent.launching import (
    bucket_programs,
    engines,
    groups,
    guards,
    hardware,
    launcher,
    operators,
    optimizing,
    real_engine,
    relays,
    streams,
)
from twin.cluster.agent.launching.claims import Kind, kind_of
from twin.cluster.agent.launching.environment import ACCOUNT, ConfigError, expand
from twin.cluster.agent.launching.pictures import image_server, personal, trainer
from twin.cluster.agent.launching.place import Launch, Place
from twin.cluster.agent.launching.volumes import Mount, rewrite
from twin.cluster.monitoring.accelerator_memory import MEMORY_SUFFIX
from twin.cluster.services import tunnel
from twin.host.paths import REPOSITORY, TwinPaths
from twin.host.ports import free_port
from twin.host.processes import GO_SETTINGS
from twin.providers.gcp.effects import secret_manager, sign_in
from twin.wire.kube import JsonObject
from twin.world.engine_times import engine_durations
from twin.world.rules import Rules

_INHERITED = ("PATH", "HOME", "LANG", "SSL_CERT_FILE", "TMPDIR", "GKE_INFERENCE_TWIN_DIR")
_SECRETS = "SECRET_MANAGER_ENDPOINT"
_KEYS = "IAP_KEYS"
_CONFIG = "config-file"
_READS = "refresh-metrics-interval"
_NOT_FOUND = 127
"""Exit code of a shell whose program does not exist (POSIX, Shell Command Language 2.8.2)."""
_STATIC_SERVER = Path(__file__).parent / "launching" / "static_server.py"
"""Started as a file: as a module, Python would first import the whole agent, for a second."""
_PICKERS = (Kind.PICKER, Kind.PD_PICKER, Kind.LLM_D_ROUTER)
_PICKER_PORTS = {"grpc-port": 9002, "grpc-health-port": 9003, "metrics-port": 9090}
_ROLES_HANDLER = "disagg-profile-handler"
_ROLES_VARIABLE = "LLM_D_ROUTER_ROLES"
# flag that moves each port, with the port it has by default
_PORT_FLAGS = {
    **dict.fromkeys(_PICKERS, _PICKER_PORTS),
    Kind.ROUTER: {"grpc-port": 9004, "grpc-health-port": 9005, "metrics-port": 9090},
    Kind.CALLOUT: {"grpc-port": 9010, "health-port": 9011, "metrics-port": 9012},
}


def plan(container: JsonObject, place: Place) -> Launch:
    """Return how a container runs.

    Raises:
        ConfigError: Its command does not start a program of its image.
    """
    kind = kind_of(container)
    missing = missing_of(container)
    if missing is not None:
        return _without(missing, kind)
    if kind is Kind.ENGINE:
        return _engine(container, place)
    if kind in _PORT_FLAGS:
        return _upstream(container, kind, place)
    others = {
        Kind.BATCH: _batch,
        Kind.CATALOGUE: _catalogue,
        Kind.EVALUATION: _optimizing,
        Kind.GATE: _gate,
        Kind.GUARD: _guard,
        Kind.IMAGES: _images,
        Kind.KINDS: _asking,
        Kind.SCALER: _asking,
        Kind.LOADER: _loader,
        Kind.OPERATOR: _operator,
        Kind.OPTIMIZATION: _optimizing,
        Kind.PERSONAL: _personal,
        Kind.QUEUES: _operator,
        Kind.JOB_SETS: _operator,
        Kind.RELAY: _relay,
        Kind.SIDECAR: _sidecar,
        Kind.STREAM: _stream,
        Kind.TRAINER: _trainer,
        Kind.WEIGHTS: _weights,
    }
    return others[kind](container, place) if kind in others else Launch(Kind.IDLE)


def missing_of(container: JsonObject) -> Missing | None:
    """Return the program that a container's image lacks. Rule: image.contents."""
    found = contents_of(str(container.get("image", "")))
    if found is None:
        return None
    mounts = [str(mount["mountPath"]) for mount in container.get("volumeMounts") or ()]
    command: list[str] = container.get("command") or []
    args: list[str] = container.get("args") or []
    return missing_program(found, command, args, mounts)


def _without(missing: Missing, kind: Kind) -> Launch:
    """A container that does not start, or whose shell ends at the program that is not there."""
    if not missing.is_of_shell:
        return Launch(kind, cannot_start=missing.message)
    script = f"import sys; print({missing.message!r}, file=sys.stderr); sys.exit({_NOT_FOUND})"
    return Launch(kind, [sys.executable, "-c", script], {"PATH": os.environ["PATH"]})


def _base(place: Place) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    own = {"PYTHONPATH": str(REPOSITORY), "PATH": os.environ["PATH"]}
    return {**GO_SETTINGS, **kept, **place.variables, **own}


def _authorities(place: Place) -> dict[str, str]:
    """Return the variable with which a program of the simulator trusts the twin alone.

    It calls nothing else, and reading the system's authorities is a tenth of its start.
    """
    if place.root is None:
        return {}
    return {"SSL_CERT_FILE": str(TwinPaths(place.root).pki / "ca.crt")}


def _engine(container: JsonObject, place: Place) -> Launch:
    said = launcher.words(container, place.variables)
    if not said and hardware.made_for(container) not in (place.node.kind, "cpu"):
        return Launch(Kind.ENGINE)  # the other container of the pod has its hardware: this sleeps
    leader = groups.leader_of(container, place.variables)
    if leader is not None:
        return _worker(leader, place)
    dialect = engines.dialect_of(container)
    argv = engines.arguments(container, place.variables, dialect)
    if (
        dialect is engines.VLLM
        and place.root is not None
        and real_engine.is_chosen(place.root, place.pod, argv)
    ):
        command, environment = _real(argv, place)
        if said:
            return _launched(container, said, place, command, environment, is_real=True)
        return Launch(Kind.ENGINE, command, environment, is_real=True)
    rules = place.rules
    simulated = {
        "COLLECTOR": place.collector,
        "ACCELERATOR": place.node.accelerator,
        "CHIPS": str(hardware.chips_for(container, place.node)),
        "NETWORK": place.node.network,
        "POD": place.pod["metadata"]["name"],
        "POD_IP": place.pod["status"]["podIP"],
        "SPEED": str(rules.speed),
        "DURATIONS": json.dumps(engine_durations(rules)),
        "NAMES": str(place.names),
        "MEMORY_FILE": str(place.kubeconfig.parent / f"{container['name']}{MEMORY_SUFFIX}"),
        "MOUNTS": json.dumps({mount.path: str(mount.folder) for mount in place.mounts}),
        "READ_ONLY": json.dumps([mount.path for mount in place.mounts if mount.read_only]),
    }
    prefixed = {f"GKE_INFERENCE_SIM_{name}": value for name, value in simulated.items()}
    command = [sys.executable, "-m", *dialect.module]
    environment = {**_base(place), **_authorities(place), **prefixed}
    if said:
        return _launched(container, said, place, command, environment, dialect=dialect)
    return Launch(Kind.ENGINE, [*command, *argv], environment)


def _launched(
    container: JsonObject,
    said: list[str],
    place: Place,
    command: list[str],
    environment: dict[str, str],
    *,
    is_real: bool = False,
    dialect: engines.Dialect = engines.VLLM,
) -> Launch:
    """The platform's launcher, with an engine of the twin in place of the engine's program."""
    settings: dict[str, str | None] = {**environment}
    if is_real:
        settings["PYTHONPATH"] = None  # it has packages of its own
    program = launcher.Program(
        command, settings, is_whole=is_real, name=dialect.program[0], words=dialect.words
    )
    return launcher.launch(
        Kind.ENGINE, container, place, said, environment, program, is_real=is_real
    )


def _worker(leader: groups.Leader, place: Place) -> Launch:
    name = place.pod["metadata"]["name"]
    argv = [sys.executable, "-m", "simulator.server.worker", leader.name, str(leader.port), name]
    variables = {**_base(place), "GKE_INFERENCE_SIM_NAMES": str(place.names)}
    return Launch(Kind.ENGINE, place.filtered(argv), variables)


def _real(argv: list[str], place: Place) -> tuple[list[str], dict[str, str]]:
    """Return command and environment of the real vLLM, in place of a container."""
    own = place.kubeconfig.parent  # goes with the pod

    def host_path(path: str) -> Path | None:
        moved = rewrite(path, place.mounts)
        return Path(moved) if moved != path else None

    address: str = place.pod["status"]["podIP"]
    environment = {**_base(place), **real_engine.environment(own)}
    environment.pop("PYTHONPATH")  # it has packages of its own
    return real_engine.command(argv, own, address, host_path), environment


def _arguments(container: JsonObject, place: Place) -> list[str]:
    """Return a container's arguments, with its variables and folders on this machine."""
    return [
        rewrite(expand(part, place.variables), place.mounts) for part in container.get("args", [])
    ]


def _upstream(container: JsonObject, kind: Kind, place: Place) -> Launch:
    """The real picker, router or callout, with its own arguments but different ports."""
    given = _given(container, place)
    flags = _PORT_FLAGS[kind]
    ports: dict[int, tuple[str, int]] = {}
    arguments, found = split_flags(given, set(flags))
    if kind in _PICKERS:
        arguments += _reads(arguments, place.rules)
    for flag, default in flags.items():
        moved = free_port()
        ports[int(found.get(flag, default))] = ("127.0.0.1", moved)
        arguments.append(f"--{flag}={moved}")
    if kind is Kind.CALLOUT:
        return _callout([str(place.tool(kind.value)), *arguments], place, ports)
    if kind is Kind.ROUTER:
        arguments.append("--address=127.0.0.1")
        found = {
            **_base(place),
            **tunnel.environment(place.names.parent, place.pod),
        }  # it asks the client gate with TLS
        return Launch(kind, [str(place.tool(kind.value)), *arguments], found, ports)
    return Launch(
        kind,
        place.filtered([str(place.tool(kind.value)), *arguments]),  # it has no flag for loopback
        {**_base(place), **_roles(kind, arguments, place), "KUBECONFIG": str(place.kubeconfig)},
        ports,
        needs_kubeconfig=True,
    )


def _roles(kind: Kind, arguments: list[str], place: Place) -> dict[str, str]:
    """Return the picker of prefill and decode replicas, for one that cannot do without it."""
    _, found = split_flags(arguments, {_CONFIG})
    config = Path(found.get(_CONFIG, ""))
    if kind is not Kind.LLM_D_ROUTER or not config.is_file():
        return {}
    if _ROLES_HANDLER not in config.read_text():
        return {}
    return {_ROLES_VARIABLE: str(place.tool(Kind.PD_PICKER.value))}


def _reads(arguments: list[str], rules: Rules) -> list[str]:
    """Return the flag with which a picker reads metrics less often. Rule: agent.picker.reads."""
    _, found = split_flags(arguments, {_READS, _CONFIG})
    if _READS in found or _has_queues(Path(found.get(_CONFIG, ""))):
        return []
    seconds = rules.seconds("agent.picker.reads")
    return [f"--{_READS}={seconds:g}s"]


def _has_queues(config: Path) -> bool:
    """Return whether a picker holds requests; what it sends on depends on how often it reads."""
    return config.is_file() and "flowControl" in config.read_text()


def _callout(argv: list[str], place: Place, ports: dict[int, tuple[str, int]]) -> Launch:
    """The platform's callout on loopback, with the twin's Secret Manager."""
    if not any(word.lstrip("-").partition("=")[0] == "address" for word in argv):
        argv = [*argv, "--address=127.0.0.1"]
    found: dict[str, str] = {}
    if place.root is not None:
        google = secret_manager.url(TwinPaths(place.root))
        found = {_SECRETS: google + place.caller.path, _KEYS: f"{google}{sign_in.KEYS_PATH}"}
    return Launch(Kind.CALLOUT, argv, {**found, **_base(place), **place.services}, ports)


def _relay(container: JsonObject, place: Place) -> Launch:
    """The platform's relay on its pod's address; all its calls go to the twin."""
    given = _arguments(container, place)
    argv = [str(place.tool(Kind.RELAY.value)), *given, *relays.flags(place.pod, place.kubeconfig)]
    found = {**_base(place), **relays.environment(place)}
    has_token = relays.has_token(place.pod)  # with it, a fallback reads the engines of its model
    return Launch(
        Kind.RELAY, place.filtered(argv) if has_token else argv, found, needs_kubeconfig=has_token
    )


def _sidecar(container: JsonObject, place: Place) -> Launch:
    given = [expand(part, place.variables) for part in container.get("args", [])]
    return Launch(
        Kind.SIDECAR,
        place.filtered([sys.executable, "-m", "simulator.sidecar", *given]),
        {
            **_base(place),
            **_authorities(place),
            "GKE_INFERENCE_SIM_POD_IP": place.pod["status"]["podIP"],
        },
    )


def _batch(container: JsonObject, place: Place) -> Launch:
    given = _arguments(container, place)
    variables = {**bucket_programs.buckets(place), **_base(place), **place.services}
    argv = bucket_programs.batch(given, place)
    return Launch(Kind.BATCH, argv, variables, needs_kubeconfig=relays.has_token(place.pod))


def _stream(container: JsonObject, place: Place) -> Launch:
    given = _arguments(container, place)
    variables = {**streams.environment(place), **_base(place), **place.services}
    return Launch(Kind.STREAM, streams.command(given), variables)


def _weights(container: JsonObject, place: Place) -> Launch:
    variables = {**_base(place), **bucket_programs.weights_environment(place)}
    return Launch(Kind.WEIGHTS, bucket_programs.weights(container, place), variables, is_real=True)


def _optimizing(container: JsonObject, place: Place) -> Launch:
    """A job that optimizes or evaluates a model, with the packages of its image."""
    kind = kind_of(container)
    argv, is_real = optimizing.command(kind, _arguments(container, place), place)
    variables = {**_base(place), **optimizing.environment(place), **place.services}
    return Launch(kind, argv, variables, is_real=is_real)


def _operator(container: JsonObject, place: Place) -> Launch:
    """The real operator with its own configuration but different addresses, like the picker."""
    made = operators.settings(container, place.variables, place.mounts, place.kubeconfig.parent)
    kind = kind_of(container)
    return Launch(
        kind,
        [str(place.tool(kind.value)), *made.arguments],
        {**_base(place), "KUBECONFIG": str(place.kubeconfig)},
        made.ports,
        needs_kubeconfig=True,
    )


def _images(container: JsonObject, place: Place) -> Launch:
    """The image server's own program behind the launcher, with a pipeline that can run here.

    Raises:
        ConfigError: The container has another command.
    """
    return image_server.launched(container, place, _base(place))


def _personal(container: JsonObject, place: Place) -> Launch:
    given = _arguments(container, place)
    variables = {**_base(place), **personal.environment(place), **place.services}
    argv = personal.command(given, place)
    return Launch(Kind.PERSONAL, argv, variables, needs_kubeconfig=True)


def _trainer(container: JsonObject, place: Place) -> Launch:
    argv, variables, is_real = trainer.command(container, place)
    environment = variables if is_real else {**_base(place), **variables}
    return Launch(Kind.TRAINER, argv, environment, is_real=is_real)


def _gate(container: JsonObject, place: Place) -> Launch:
    """The gate's own program, with the pod's service account if it has one.

    Raises:
        ConfigError: Its command is not the gate's.
    """
    command: list[str] = container.get("command", [])
    if command[1:] != ["-m", "engine.gate"]:
        raise ConfigError(f"no gate in the command: {shlex.join(command)}")
    own = place.kubeconfig.parent
    root = own / "roots" / container["name"]
    launcher.link(root, [*place.mounts, Mount(ACCOUNT, own / "serviceaccount", True)])
    environment = launcher.environment(_base(place), root, place)
    return Launch(Kind.GATE, [sys.executable, *command[1:]], environment, needs_kubeconfig=True)


def _asking(container: JsonObject, place: Place) -> Launch:
    """A program of the platform that asks the API server, with the pod's service account.

    Raises:
        ConfigError: Its command is not a Python program.
    """
    own = place.kubeconfig.parent
    root = own / "roots" / container["name"]
    launcher.link(root, [*place.mounts, Mount(ACCOUNT, own / "serviceaccount", True)])
    variables = {**_base(place), "GKE_INFERENCE_ROOT": str(root)}
    return Launch(kind_of(container), _program(container), variables, needs_kubeconfig=True)


def _guard(container: JsonObject, place: Place) -> Launch:
    """The platform's guard, with the packages of its image."""
    argv = guards.command(_given(container, place), place.pod["status"]["podIP"])
    return Launch(Kind.GUARD, argv, guards.environment(place.variables), is_real=True)


def _given(container: JsonObject, place: Place) -> list[str]:
    """Return a container's arguments with folders of this machine."""
    words: list[str] = container.get("args", [])
    return [rewrite(expand(part, place.variables), place.mounts) for part in words]


def _loader(container: JsonObject, place: Place) -> Launch:
    """The loader's own program; folders in its environment are translated to this machine.

    Raises:
        ConfigError: Its command is not a Python program.
    """
    moved = {name: rewrite(value, place.mounts) for name, value in place.variables.items()}
    return Launch(Kind.LOADER, _program(container), {**_base(place), **moved})


def _program(container: JsonObject) -> list[str]:
    """Return the command line of a Python program in a container's command.

    Raises:
        ConfigError: There is none.
    """
    command: list[str] = container.get("command", [])
    if command[:2] != ["python3", "-c"]:
        raise ConfigError(f"no Python program in the command: {shlex.join(command[:2])}")
    return [sys.executable, *command[1:]]


def split_flags(arguments: list[str], wanted: set[str]) -> tuple[list[str], dict[str, str]]:
    """Remove flags with their values from Go-style arguments.

    Returns:
        The other arguments, and the values of the wanted flags by name.
    """
    rest: list[str] = []
    found: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        if word.startswith("-") and name in wanted:
            found[name] = value if equals else next(words, "")
        else:
            rest.append(word)
    return rest, found


def _catalogue(container: JsonObject, place: Place) -> Launch:
    mounts = {mount.path: str(mount.folder) for mount in place.mounts}
    argv = [
        sys.executable,
        "-P",
        str(_STATIC_SERVER),
        place.pod["status"]["podIP"],
        json.dumps(mounts),
    ]
    return Launch(kind_of(container), argv, _base(place))
