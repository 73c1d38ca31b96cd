"""`gke-inference doctor`: checks that this machine can run the blueprint."""

import errno
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import typer
from rich.text import Text

from scripts.develop.doctor_checks import Facts, Program, Row, State, failures, rows
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.tables import Listing, print_table, prose
from twin.host import loopback_only
from twin.host.inherited import open_files
from twin.host.listening import of_twin
from twin.host.paths import REPOSITORY, TwinPaths
from twin.toolchain import (
    ToolError,
    cache_root,
    is_cached,
    missing,
    module_of,
    official,
    recipe,
    usual_modules,
)
from twin.toolchain.gobuild import go_on_path
from twin.toolchain.network import check_settings
from twin.toolchain.sources import current_platform

_STYLES = {State.GOOD: "green", State.WARNING: "yellow", State.BAD: "bold red"}
_ADDRESSES = ("127.0.0.1", "127.64.0.1", "127.127.255.254")
"""One of the programs, and the first and last of the twin's pods."""
_VERSIONS = {"pulumi": ["version"], "go": ["version"], "kubectl": ["version", "--client"]}
_PLUGINS = ("pulumi-language-python", "pulumi-resource-gcp", "pulumi-resource-kubernetes")
_VERSION_SECONDS = 10


def doctor(
    output: OutputOption = Output.TABLE,
) -> None:
    """Check this machine: Python, compiler, cache, disk, memory, ports, and what is on PATH.

    Exits 1 if a row is BAD; its remedy says what to do.
    """
    checked = rows(facts())
    if output.is_data:
        print_data([{**asdict(row), "state": row.state.value} for row in checked], output)
    else:
        print_table(table(checked))
    if failures(checked):
        raise typer.Exit(ExitCode.CHECK_FAILED)


def table(checked: list[Row]) -> Listing:
    """Return the rows as one table."""
    made = Listing("CHECK", "STATE", prose("FOUND"), prose("REMEDY"))
    for row in checked:
        made.add_row(row.check, Text(row.state.value, _STYLES[row.state]), row.found, row.remedy)
    return made


def facts() -> Facts:
    """Return the facts about this machine for the checks."""
    cache = cache_root()
    absent = tuple(module.name for module in missing(usual_modules().values()))
    return Facts(
        platform=current_platform(),
        python=sys.version_info[:2],
        packages_current=_packages_current(),
        settings_problem=_settings_problem(),
        go=_version("go", shutil.which("go")),
        go_is_new_enough=go_on_path() is not None,
        go_package=recipe()["go"]["package"],
        cache=str(cache),
        cache_is_writable=os.access(_existing(cache), os.W_OK),
        missing=absent,
        tools=len(usual_modules()),
        cache_free_gib=shutil.disk_usage(_existing(cache)).free / 2**30,
        checkout_free_gib=shutil.disk_usage(REPOSITORY).free / 2**30,
        memory_gib=_available_memory_gib(),
        cores=os.cpu_count() or 1,
        open_files=open_files(),
        unbound=tuple(problem for address in _ADDRESSES if (problem := _unbound(address))),
        exposed=tuple(each for each in of_twin(TwinPaths.default()) if not each.is_on_loopback),
        unkept=loopback_only.problem(),
        programs=_programs(),
    )


def _existing(folder: Path) -> Path:
    """Return a folder, or its nearest existing ancestor."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def _available_memory_gib() -> float:
    """Return the available memory; without Linux's figure, the installed memory."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except FileNotFoundError:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    kib = {
        name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)
    }
    return kib["MemAvailable"] / 2**20


def _packages_current() -> bool:
    ready = REPOSITORY / ".venv" / ".ready"
    lock = REPOSITORY / "requirements.lock"
    return ready.exists() and ready.stat().st_mtime >= lock.stat().st_mtime


def _settings_problem() -> str:
    try:
        check_settings()
    except ToolError as error:
        return str(error)
    return ""


def _unbound(address: str) -> str:
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError as error:
            return f"{address}: {errno.errorcode.get(error.errno or 0, '')} {error.strerror}"
    return ""


def _programs() -> tuple[Program, ...]:
    tools = [_tool(name) for name in ("pulumi", "kubectl", "crane")]
    go = shutil.which("go")
    is_used = "PATH" if go_on_path() else recipe()["go"]["package"]
    plugins = [_plugin(name) for name in _PLUGINS]
    return (*tools, Program("go", f"{go} {_version('go', go)}" if go else "", is_used), *plugins)


def _plugin(name: str) -> Program:
    on_path = shutil.which(name)
    return Program(
        name, on_path or "", "the twin's own" + "; with --official, this one" * bool(on_path)
    )


def _tool(name: str) -> Program:
    on_path = shutil.which(name)
    described = f"{on_path} {_version(name, on_path)}".strip() if on_path else ""
    module = module_of(name)
    if official(name) is not None:
        used = "PATH"
    elif is_cached(module):
        used = f"the cache's {module.version}"
    else:
        used = f"{module.version}, obtained when needed"
    return Program(name, described, used)


def _version(name: str, path: str | None) -> str:
    """Return the first line of a program's version output; may be empty."""
    if path is None or name not in _VERSIONS:
        return ""
    try:
        answer = subprocess.run(
            [path, *_VERSIONS[name]], capture_output=True, text=True, check=True,
            timeout=_VERSION_SECONDS,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    lines = answer.stdout.strip().splitlines()
    return lines[0] if lines else ""
