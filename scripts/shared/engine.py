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
    """Refuse a stack that has no file.

    Raises:
        CommandError: Names the existing stacks.
    """
    check_one("--stack", name, stack_names())


def check_file(name: str) -> None:
    """Refuse a stack whose file the engine could not read; its own error does not name the file.

    Raises:
        CommandError: Names the file and the problem.
    """
    check_stack(name)
    try:
        platform_of(STACKS / f"Pulumi.{name}.yaml")
    except StackError as error:
        raise CommandError(str(error)) from None


def official_to_deploy(is_wanted: bool) -> OfficialPlugins | None:
    """Return what `--official` deploys with: language host and kubernetes provider.

    The gcp provider stays the twin's: the official one would create resources in Google Cloud.

    Raises:
        twin.toolchain.ToolError: one is not installed on this machine.
    """
    return find_official(TwinPaths.default(), ("kubernetes",)) if is_wanted else None


def official_to_preview(is_wanted: bool) -> OfficialPlugins | None:
    """Return what `--official` previews with: language host, kubernetes and gcp provider.

    Raises:
        twin.toolchain.ToolError: one is not installed on this machine.
    """
    return find_official(TwinPaths.default(), ("kubernetes", "gcp")) if is_wanted else None


def official_host(is_wanted: bool) -> OfficialPlugins | None:
    """Return what `--official` judges a change with: the language host.

    The providers stay the verdict's own, which make up what a cloud would answer.

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
        """Obtain missing tools and start the daemon; a control plane only where clusters exist.

        Args:
            paths: of the twin.
            speed: how much faster than Google's its clock runs; a running twin keeps its own.
            official: plugins that replace the twin's own.

        Raises:
            twin.toolchain.ToolError: a tool cannot be had.
            twin.host.processes.ProcessError: the daemon did not start.
        """
        ensure_tools("engine", *(["cluster"] if clusters.folders(paths) else []))
        self.paths = paths
        super().__init__(pulumi_environment(paths, daemon.ensure(paths, speed), official))

    def ensure_stack(self, name: str) -> None:
        """Make the stack if it is not there, and clear what a dead run left.

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
        """Remove the lock of an engine that was killed; one that lives is left alone."""
        folder = self.paths.root / "pulumi-state" / ".pulumi" / "locks" / "organization"
        for file in (folder / PROJECT / name).glob("*.json"):
            lock: dict[str, Any] = json.loads(file.read_text())
            pid = int(lock.get("pid", 0))
            if lock.get("hostname") == socket.gethostname() and processes.started_at(pid) is None:
                file.unlink()
                console.print(f"Cleared the lock of an interrupted run (process {pid}).")

    def deployment(self, name: str) -> dict[str, Any]:
        """Return the stack's state, empty for a stack that was never up.

        Raises:
            CommandError: The CLI refuses.
        """
        return super().deployment(name) if self._has_state(name) else {}

    def outputs_of(self, name: str) -> dict[str, Any]:
        """Return the outputs of a stack, none for one that was never up; no plugin is asked."""
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
        """Return the stacks this twin has state of."""
        folder = self.paths.root / "pulumi-state" / ".pulumi" / "stacks" / PROJECT
        return sorted(file.stem for file in folder.glob("*.json"))
