"""Runs the Pulumi CLI on the twin, and creates its stacks."""

import json
import os
import socket
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import Signals
from typing import Annotated, Any

import typer

from infra.reading.load import STACKS, platform_of
from infra.stack.problems import StackError
from scripts.shared.program_hosts import program_hosts
from scripts.shared.pulumi_cli import PulumiCli
from scripts.shared.stack_resource import outputs_in
from scripts.shared.tool_setup import ensure_tools
from scripts.shared.twin_daemon import start_daemon
from scripts.terminal.console import CommandError, console, one_line
from scripts.terminal.options import check_stack
from twin.cluster import lifecycle as clusters
from twin.host import processes
from twin.host.inherited import LEAST_OPEN_FILES, open_files
from twin.host.paths import TwinPaths
from twin.pulumi import speedups
from twin.pulumi.environment import pulumi_environment
from twin.pulumi.official import OfficialPlugins, find_official
from twin.pulumi.warm_hosts import WarmHosts

PROJECT = "gke-inference"
PROGRAMS = ("preview", "up")
"""Commands of the CLI that run the project's program."""
_WAIT_SECONDS = 0.2

OfficialOption = Annotated[
    bool,
    typer.Option(
        "--official",
        help="Run with the Pulumi plugins installed on this machine instead of the twin's own; "
        "exits 2 if one is missing.",
    ),
]


@contextmanager
def attached_to(
    hosts: WarmHosts | None, command: str, environment: Mapping[str, str]
) -> Generator[dict[str, str]]:
    """Yield the variables with which a run of the CLI uses one of these language hosts.

    They are empty if the CLI starts its own host: there is none here, the command runs no program,
    or the run is without patches of the SDKs, which the hosts have.

    Args:
        hosts: Language hosts.
        command: First argument of the CLI.
        environment: All variables of the run.
    """
    if hosts is None or command not in PROGRAMS or not speedups.are_on(environment):
        yield {}
        return
    with hosts.host(environment) as port:
        yield {"PULUMI_DEBUG_LANGUAGES": f"python:{port}"}


def check_file(name: str) -> None:
    """Check that the engine can read a stack file; the engine's own error does not name it.

    Raises:
        CommandError: The message names the file and the problem.
    """
    check_stack(name)
    try:
        platform_of(STACKS / f"Pulumi.{name}.yaml")
    except StackError as error:
        raise CommandError(str(error)) from None


def official_to_deploy(is_wanted: bool) -> OfficialPlugins | None:
    """Return the plugins for a deployment with `--official`: language host and kubernetes provider.

    The gcp provider is the twin's, because the official one would create resources in Google Cloud.

    Raises:
        twin.toolchain.ToolError: one is not installed on this machine.
    """
    return find_official(TwinPaths.default(), ("kubernetes",)) if is_wanted else None


def official_to_preview(is_wanted: bool) -> OfficialPlugins | None:
    """Return the plugins for a preview with `--official`: language host and both providers.

    Raises:
        twin.toolchain.ToolError: one is not installed on this machine.
    """
    return find_official(TwinPaths.default(), ("kubernetes", "gcp")) if is_wanted else None


def official_host(is_wanted: bool) -> OfficialPlugins | None:
    """Return the plugin for a verdict with `--official`: the language host.

    The verdict uses its own providers, which simulate the cloud's answers.

    Raises:
        twin.toolchain.ToolError: it is not installed on this machine.
    """
    return find_official(TwinPaths.default(), ()) if is_wanted else None


class Engine(PulumiCli):
    """The Pulumi CLI with the environment of one twin."""

    end = Signals.SIGKILL  # at once, so that the same command can run again; it repairs the state

    def __init__(
        self,
        paths: TwinPaths,
        speed: float | None = None,
        official: OfficialPlugins | None = None,
        hosts: WarmHosts | None = None,
    ) -> None:
        """Obtain missing tools and start the daemon; start control planes of existing clusters.

        Args:
            paths: Paths of the twin.
            speed: Clock speed as a multiple of real time; a running twin keeps its speed.
            official: Plugins that replace the twin's own.
            hosts: Language hosts for the programs of runs, as `program_hosts` returns them; with
                None, they are started when they are needed.

        Raises:
            twin.toolchain.ToolError: A tool cannot be obtained.
            twin.host.processes.ProcessError: The daemon did not start.
            CommandError: This shell allows too few open files.
        """
        if open_files() < LEAST_OPEN_FILES:
            raise CommandError(
                f"ulimit -n: must be at least {LEAST_OPEN_FILES} in this shell, got {open_files()}"
            )
        ensure_tools("engine", *(["cluster"] if clusters.folders(paths) else []))
        self.paths = paths
        super().__init__(pulumi_environment(paths, start_daemon(paths, speed), official))
        self._official = official
        self._hosts = hosts

    @contextmanager
    def attached(self, command: str, environment: Mapping[str, str]) -> Generator[dict[str, str]]:
        """Attach a run of the CLI to a language host that has loaded what programs import."""
        environment = {**os.environ, **self.environment, **environment}
        if self._hosts is None and command in PROGRAMS and speedups.are_on(environment):
            self._hosts = program_hosts(self.paths, self._official)
        with attached_to(self._hosts, command, environment) as variables:
            yield variables

    def ensure_stack(self, name: str) -> None:
        """Create the stack if it does not exist, and clear the leftovers of a killed run.

        Raises:
            CommandError: the stack has no file, or the CLI refuses.
        """
        check_stack(name)
        if not self._has_state(name):
            made = self.run("stack", "init", name, "--non-interactive", "--no-select", capture=True)
            if made.returncode and "already exists" not in made.stderr:
                raise CommandError(f"{name}: {one_line(made.stderr)}")
        self._clear_locks(name)

    def _state(self, name: str) -> Path:
        return self.paths.root / "pulumi-state" / ".pulumi" / "stacks" / PROJECT / f"{name}.json"

    def _has_state(self, name: str) -> bool:
        return self._state(name).exists()

    def wait_for_others(self, name: str) -> None:
        """Wait until no other run changes a stack."""
        for pid in self._locks(name).values():
            if processes.started_at(pid) is not None:
                console.print(f"Waiting for another run of {name} to end (process {pid}).")
                while processes.started_at(pid) is not None:
                    time.sleep(_WAIT_SECONDS)
        self._clear_locks(name)

    def _clear_locks(self, name: str) -> None:
        """Remove the lock of a killed engine; keep the lock of a running one."""
        for file, pid in self._locks(name).items():
            if processes.started_at(pid) is None:
                file.unlink(missing_ok=True)
                console.print(f"Cleared the lock of an interrupted run (process {pid}).")

    def _locks(self, name: str) -> dict[Path, int]:
        """Return the process ID of each run on this machine that has locked a stack, by file."""
        folder = self.paths.root / "pulumi-state" / ".pulumi" / "locks" / "organization"
        found: dict[Path, int] = {}
        for file in sorted((folder / PROJECT / name).glob("*.json")):
            with suppress(FileNotFoundError, ValueError):  # it ends now, or is being written
                lock: dict[str, Any] = json.loads(file.read_text())
                if lock.get("hostname") == socket.gethostname():
                    found[file] = int(lock.get("pid", 0))
        return found

    def deployment(self, name: str) -> dict[str, Any]:
        """Return the stack's state; empty for a stack that was never up.

        Raises:
            CommandError: The CLI refuses.
        """
        return super().deployment(name) if self._has_state(name) else {}

    def resources_of(self, name: str) -> list[dict[str, Any]]:
        """Return the resources in a stack's state without calling the CLI; none if never up."""
        if not self._has_state(name):
            return []
        checkpoint: dict[str, Any] = json.loads(self._state(name).read_text())["checkpoint"]
        latest: dict[str, Any] = checkpoint.get("latest") or {}
        return latest.get("resources") or []

    def outputs_of(self, name: str) -> dict[str, Any]:
        """Return the outputs of a stack without calling a plugin; empty if it was never up."""
        return outputs_in(self.resources_of(name))

    def stacks(self) -> list[str]:
        """Return the stacks with state on this twin."""
        folder = self.paths.root / "pulumi-state" / ".pulumi" / "stacks" / PROJECT
        return sorted(file.stem for file in folder.glob("*.json"))
