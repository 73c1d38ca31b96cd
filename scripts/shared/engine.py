"""Runs the Pulumi CLI on the twin, and creates its stacks."""

import json
import socket
from pathlib import Path
from typing import Annotated, Any

import typer

from infra.reading.load import STACKS, platform_of, stack_names
from infra.stack.problems import StackError
from scripts.shared.pulumi_cli import PulumiCli
from scripts.shared.tool_setup import ensure_tools
from scripts.terminal.console import CommandError, console, one_line
from scripts.terminal.options import check_one
from twin import daemon
from twin.cluster import lifecycle as clusters
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.pulumi.environment import pulumi_environment
from twin.pulumi.official import OfficialPlugins, find_official

PROJECT = "gke-inference"

OfficialOption = Annotated[
    bool,
    typer.Option(
        "--official",
        help="Run with the Pulumi plugins installed on this machine instead of the twin's own; "
        "exits 2 if one is missing.",
    ),
]


def check_stack(name: str) -> None:
    """Check that a stack has a file.

    Raises:
        CommandError: The message lists the existing stacks.
    """
    check_one("--stack", name, stack_names())


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

    def __init__(
        self,
        paths: TwinPaths,
        speed: float | None = None,
        official: OfficialPlugins | None = None,
    ) -> None:
        """Obtain missing tools and start the daemon; start control planes of existing clusters.

        Args:
            paths: Paths of the twin.
            speed: Clock speed as a multiple of real time; a running twin keeps its speed.
            official: Plugins that replace the twin's own.

        Raises:
            twin.toolchain.ToolError: A tool cannot be obtained.
            twin.host.processes.ProcessError: The daemon did not start.
        """
        ensure_tools("engine", *(["cluster"] if clusters.folders(paths) else []))
        self.paths = paths
        super().__init__(pulumi_environment(paths, daemon.ensure(paths, speed), official))

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

    def _clear_locks(self, name: str) -> None:
        """Remove the lock of a killed engine; keep the lock of a running one."""
        folder = self.paths.root / "pulumi-state" / ".pulumi" / "locks" / "organization"
        for file in (folder / PROJECT / name).glob("*.json"):
            lock: dict[str, Any] = json.loads(file.read_text())
            pid = int(lock.get("pid", 0))
            if lock.get("hostname") == socket.gethostname() and processes.started_at(pid) is None:
                file.unlink()
                console.print(f"Cleared the lock of an interrupted run (process {pid}).")

    def deployment(self, name: str) -> dict[str, Any]:
        """Return the stack's state; empty for a stack that was never up.

        Raises:
            CommandError: The CLI refuses.
        """
        return super().deployment(name) if self._has_state(name) else {}

    def outputs_of(self, name: str) -> dict[str, Any]:
        """Return the outputs of a stack without calling a plugin; empty if it was never up."""
        if not self._has_state(name):
            return {}
        checkpoint: dict[str, Any] = json.loads(self._state(name).read_text())["checkpoint"]
        latest: dict[str, Any] = checkpoint.get("latest") or {}
        resources: list[dict[str, Any]] = latest.get("resources") or []
        for each in resources:
            if each["type"] == "pulumi:pulumi:Stack":
                return dict(each.get("outputs") or {})
        return {}

    def stacks(self) -> list[str]:
        """Return the stacks with state on this twin."""
        folder = self.paths.root / "pulumi-state" / ".pulumi" / "stacks" / PROJECT
        return sorted(file.stem for file in folder.glob("*.json"))
