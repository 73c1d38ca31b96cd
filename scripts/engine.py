"""Runs the Pulumi CLI on the twin, and makes its stacks."""

import json
import os
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.reading.load import STACKS, platform_of, stack_names
from infra.stack.problems import StackError
from scripts.console import CommandError, console
from scripts.tool_setup import ensure_tools
from scripts.words import check_one
from twin import daemon
from twin.cluster import lifecycle as clusters
from twin.host import processes
from twin.host.paths import REPOSITORY, TwinPaths
from twin.pulumi.environment import pulumi_environment

PROJECT = "gke-inference"


def check_stack(name: str) -> None:
    """Refuse a stack that has no file.

    Raises:
        CommandError: names the stacks there are.
    """
    check_one("--stack", name, stack_names())


def check_file(name: str) -> None:
    """Refuse a stack whose file the engine could not read; it would not say which file it is.

    Raises:
        CommandError: names the file and what is wrong with it.
    """
    check_stack(name)
    try:
        platform_of(STACKS / f"Pulumi.{name}.yaml")
    except StackError as error:
        raise CommandError(str(error)) from None


class Engine:
    """The Pulumi CLI with the environment of one twin."""

    def __init__(self, paths: TwinPaths, speed: float | None = None) -> None:
        """Obtain missing tools and start the daemon: of a control plane only where clusters exist.

        Raises:
            twin.toolchain.ToolError: a tool cannot be had.
            twin.host.processes.ProcessError: the daemon did not start.
        """
        ensure_tools("engine", *(["cluster"] if clusters.folders(paths) else []))
        self.paths = paths
        self.environment = pulumi_environment(paths, daemon.ensure(paths, speed))

    def run(
        self,
        *arguments: str,
        capture: bool = False,
        environment: Mapping[str, str] | None = None,
        project: Path = REPOSITORY,
    ) -> subprocess.CompletedProcess[str]:
        """Run `pulumi` in a project; its output is the user's unless `capture`."""
        return subprocess.run(
            ["pulumi", *arguments],
            cwd=project,
            env={**os.environ, **self.environment, **(environment or {})},
            text=True,
            capture_output=capture,
            check=False,
        )

    def query(self, *arguments: str) -> Any:
        """Run `pulumi` and return its JSON answer.

        Raises:
            CommandError: it failed, with what it said.
        """
        answer = self.run(*arguments, capture=True)
        if answer.returncode:
            said = answer.stderr.strip() or answer.stdout.strip()
            raise CommandError(said.removeprefix("error: "))
        return json.loads(answer.stdout)

    def ensure_stack(self, name: str) -> None:
        """Make the stack if it is not there, and clear what a dead run left.

        Raises:
            CommandError: the stack has no file, or the CLI refuses.
        """
        check_stack(name)
        if not self._has_state(name):
            made = self.run("stack", "init", name, "--non-interactive", "--no-select", capture=True)
            if made.returncode and "already exists" not in made.stderr:
                raise CommandError(made.stderr.strip())
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
        """Return the stack's state: `resources` and `pending_operations`, both perhaps empty."""
        if not self._has_state(name):
            return {}
        exported = self.query("stack", "export", "-s", name)
        return exported.get("deployment") or {}

    def outputs(self, name: str) -> dict[str, Any]:
        """Return the stack's outputs."""
        return self.query("stack", "output", "--json", "-s", name)

    def stacks(self) -> list[str]:
        """Return the stacks this twin has state of."""
        folder = self.paths.root / "pulumi-state" / ".pulumi" / "stacks" / PROJECT
        return sorted(file.stem for file in folder.glob("*.json"))
