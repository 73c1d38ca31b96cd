"""The checks of `gke-inference doctor`: each turns facts about a machine into a row."""

from dataclasses import dataclass
from enum import Enum

from twin.host.inherited import LEAST_OPEN_FILES
from twin.host.listening import Listener

PYTHON_VERSIONS = ((3, 11), (3, 13))
"""Oldest and newest Python, both included."""
PLATFORMS = ("linux/amd64", "linux/arm64")
_TWIN_MEMORY_GIB = 2.0
_BUILD_MEMORY_GIB = 4.0
_TWIN_DISK_GIB = 1.0
_BUILD_DISK_GIB = 10.0  # sources, Go's build cache and the tools
_CORES = 2


class State(Enum):
    """How a check ended."""

    GOOD = "ok"
    WARNING = "warning"
    BAD = "BAD"


@dataclass(frozen=True)
class Program:
    """A program that may be on PATH, and the one that the twin uses."""

    name: str
    on_path: str
    """Path and version; empty: it is not on PATH."""
    used: str
    """Program that a run on the twin uses."""


@dataclass(frozen=True)
class Facts:
    """Facts for the checks."""

    platform: str
    """Operating system and architecture, such as `linux/amd64`."""
    python: tuple[int, int]
    """Version of the interpreter that runs this."""
    packages_current: bool
    """Whether the packages of `.venv` are those of requirements.lock."""
    settings_problem: str
    """Problem with an environment variable of the tools; may be empty."""
    go: str
    """Version of the Go toolchain on PATH; empty: there is none."""
    go_is_new_enough: bool
    go_package: str
    """Package of the Go toolchain, used if PATH has none that is new enough."""
    cache: str
    """Folder of the tools."""
    cache_is_writable: bool
    missing: tuple[str, ...]
    """Tool modules that are neither in the cache nor on PATH."""
    tools: int
    """Total number of tool modules."""
    cache_free_gib: float
    checkout_free_gib: float
    memory_gib: float
    """Available memory."""
    cores: int
    open_files: int
    """Number of files that a process of this shell may open."""
    unbound: tuple[str, ...]
    """Loopback addresses that could not be bound, with the reason."""
    exposed: tuple[Listener, ...]
    """Sockets of the twin's programs to which other machines can connect."""
    unkept: str
    """Why the endpoint picker cannot be kept to loopback here; may be empty."""
    programs: tuple[Program, ...]


@dataclass(frozen=True)
class Row:
    """Result of one check, with a remedy unless it passed."""

    check: str
    state: State
    found: str
    remedy: str = ""


def rows(facts: Facts) -> list[Row]:
    """Return the result of every check, in the order of the table."""
    return [
        _platform(facts),
        _python(facts),
        _packages(facts),
        _settings(facts),
        _compiler(facts),
        _cache(facts),
        _tools(facts),
        *_disk(facts),
        _memory(facts),
        _cores(facts),
        _open_files(facts),
        _ports(facts),
        _exposed(facts),
        *(_program(program) for program in facts.programs),
    ]


def failures(checked: list[Row]) -> list[Row]:
    """Return the rows that prevent the program from working."""
    return [row for row in checked if row.state is State.BAD]


def _platform(facts: Facts) -> Row:
    if facts.platform in PLATFORMS:
        return Row("platform", State.GOOD, facts.platform)
    remedy = f"Use one of {', '.join(PLATFORMS)}, for example in the dev container."
    return Row("platform", State.BAD, facts.platform, remedy)


def _python(facts: Facts) -> Row:
    oldest, newest = (".".join(map(str, version)) for version in PYTHON_VERSIONS)
    found = ".".join(map(str, facts.python))
    if PYTHON_VERSIONS[0] <= facts.python <= PYTHON_VERSIONS[1]:
        return Row("Python", State.GOOD, found)
    remedy = f"Install Python {oldest} to {newest}, delete .venv, then run `make .venv/.ready`."
    return Row("Python", State.BAD, found, remedy)


def _packages(facts: Facts) -> Row:
    if facts.packages_current:
        return Row("Python packages", State.GOOD, "as in requirements.lock")
    return Row("Python packages", State.BAD, "older than the lock", "Run `make .venv/.ready`.")


def _settings(facts: Facts) -> Row:
    if not facts.settings_problem:
        return Row("tool settings", State.GOOD, "valid")
    return Row("tool settings", State.BAD, facts.settings_problem, "Correct or unset the variable.")


def _compiler(facts: Facts) -> Row:
    if not facts.missing:
        return Row("Go compiler", State.GOOD, "not needed: every tool is there")
    if facts.go_is_new_enough:
        return Row("Go compiler", State.GOOD, f"{facts.go} on PATH")
    on_path = f"{facts.go} on PATH is too old" if facts.go else "none on PATH"
    return Row("Go compiler", State.GOOD, f"{on_path}: {facts.go_package} is installed when needed")


def _cache(facts: Facts) -> Row:
    if facts.cache_is_writable:
        return Row("tool cache", State.GOOD, facts.cache)
    remedy = "Make the folder writable, or set GKE_INFERENCE_TOOLS to one that is."
    return Row("tool cache", State.BAD, f"{facts.cache} is not writable", remedy)


def _tools(facts: Facts) -> Row:
    there = f"{facts.tools - len(facts.missing)} of {facts.tools}"
    if not facts.missing:
        return Row("tools", State.GOOD, there)
    remedy = (
        "Nothing: commands obtain what they need. To obtain all now, run `gke-inference tools`."
    )
    return Row("tools", State.WARNING, f"{there}; missing: {', '.join(facts.missing)}", remedy)


def _disk(facts: Facts) -> list[Row]:
    needed = _BUILD_DISK_GIB if facts.missing else _TWIN_DISK_GIB
    remedy = (
        "Free space, or set GKE_INFERENCE_TOOLS to a larger disk; `go clean -cache` frees 6 GB."
    )
    return [
        _at_least("disk of the cache", facts.cache_free_gib, needed, remedy),
        _at_least(
            "disk of the checkout", facts.checkout_free_gib, _TWIN_DISK_GIB, "Free space on it."
        ),
    ]


def _memory(facts: Facts) -> Row:
    row = _at_least(
        "memory", facts.memory_gib, _TWIN_MEMORY_GIB, "End other programs: the twin needs 2 GiB."
    )
    if row.state is State.GOOD and facts.missing and facts.memory_gib < _BUILD_MEMORY_GIB:
        remedy = "A build from source needs 4 GiB; official binaries do not."
        return Row(row.check, State.WARNING, row.found, remedy)
    return row


def _at_least(check: str, gib: float, needed: float, remedy: str) -> Row:
    found = f"{gib:.1f} GiB free"
    if gib >= needed:
        return Row(check, State.GOOD, found)
    return Row(check, State.BAD, f"{found}, {needed:g} GiB needed", remedy)


def _cores(facts: Facts) -> Row:
    if facts.cores >= _CORES:
        return Row("processor cores", State.GOOD, str(facts.cores))
    remedy = "Nothing: the twin works and is slower than the documented times."
    return Row("processor cores", State.WARNING, str(facts.cores), remedy)


def _open_files(facts: Facts) -> Row:
    if facts.open_files >= LEAST_OPEN_FILES:
        return Row("open files", State.GOOD, str(facts.open_files))
    found = f"{facts.open_files}, {LEAST_OPEN_FILES} needed"
    remedy = f"Run ulimit -n {LEAST_OPEN_FILES}; if the shell refuses, raise the user's hard limit."
    return Row("open files", State.BAD, found, remedy)


def _ports(facts: Facts) -> Row:
    if not facts.unbound:
        return Row("loopback ports", State.GOOD, "127.0.0.0/8 can be bound")
    remedy = "Allow programs to listen on 127.0.0.0/8; end what holds the address."
    return Row("loopback ports", State.BAD, "; ".join(facts.unbound), remedy)


def _exposed(facts: Facts) -> Row:
    rule = "iptables -A INPUT ! -i lo -p tcp --dport 20000:31999 --syn -j DROP"
    remedy = f"In an untrusted network, close them with a firewall, for example as root: `{rule}`."
    if facts.exposed:
        ports = ", ".join(str(each.port) for each in facts.exposed)
        programs = ", ".join(dict.fromkeys(each.program for each in facts.exposed))
        found = f"{programs} listen on all interfaces: {ports}"
        return Row("open ports", State.WARNING, found, remedy)
    if facts.unkept:
        found = f"the endpoint picker will listen on all interfaces: {facts.unkept}"
        return Row("open ports", State.WARNING, found, remedy)
    return Row("open ports", State.GOOD, "no program of the twin listens beyond loopback")


def _program(program: Program) -> Row:
    found = f"{program.on_path or 'not on PATH'}; used: {program.used}"
    return Row(program.name, State.GOOD, found)
