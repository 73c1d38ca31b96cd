"""Runs the Pulumi CLI in a project, with the user's environment and additional variables."""

import json
import os
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from signal import Signals
from typing import IO, Any

from scripts.terminal.console import CommandError, one_line
from twin.host.inherited import ends_with
from twin.host.paths import REPOSITORY


class PulumiCli:
    """The `pulumi` on the PATH."""

    environment: Mapping[str, str]
    """Additional environment variables."""
    end: Signals = Signals.SIGINT
    """Signal that a run receives when the command is killed: it ends as with Ctrl-C."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Take additional environment variables."""
        self.environment = environment

    def run(
        self,
        *arguments: str,
        capture: bool = False,
        environment: Mapping[str, str] | None = None,
        project: Path = REPOSITORY,
    ) -> subprocess.CompletedProcess[str]:
        """Run `pulumi` in a project; show its output unless `capture` is set.

        Raises:
            CommandError: `pulumi` is not on PATH.
        """
        given = environment or {}
        with self.attached(arguments[0], given) as more:
            try:
                return subprocess.run(
                    ["pulumi", *arguments],
                    cwd=project,
                    env={**os.environ, **self.environment, **given, **more},
                    text=True,
                    capture_output=capture,
                    check=False,
                    preexec_fn=ends_with(self.end),
                )
            except FileNotFoundError:
                raise CommandError("pulumi: must be on PATH, found none") from None

    @contextmanager
    def attached(self, command: str, environment: Mapping[str, str]) -> Generator[dict[str, str]]:
        """Yield more variables for a run, which hold as long as the block.

        Args:
            command: First argument of the CLI.
            environment: Variables of the run.
        """
        del command, environment
        yield {}

    def start(
        self,
        *arguments: str,
        output: IO[str],
        environment: Mapping[str, str],
        project: Path = REPOSITORY,
    ) -> "subprocess.Popen[str]":
        """Start `pulumi` in a project, with both of its outputs in a file.

        Raises:
            CommandError: `pulumi` is not on PATH.
        """
        try:
            return subprocess.Popen(
                ["pulumi", *arguments],
                cwd=project,
                env={**os.environ, **self.environment, **environment},
                text=True,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=ends_with(self.end),  # noqa: PLW1509 - two system calls, no lock
            )
        except FileNotFoundError:
            raise CommandError("pulumi: must be on PATH, found none") from None

    def query(self, *arguments: str) -> Any:
        """Run `pulumi` and return its JSON output.

        Raises:
            CommandError: It failed; the message has its output.
        """
        answer = self.run(*arguments, capture=True)
        if answer.returncode:
            reason = one_line(answer.stderr) or one_line(answer.stdout)
            raise CommandError(reason.removeprefix("error: "))
        return json.loads(answer.stdout)

    def deployment(self, name: str) -> dict[str, Any]:
        """Return the stack's state: `resources` and `pending_operations`, both perhaps empty.

        Raises:
            CommandError: The CLI has no such stack, or refuses.
        """
        exported = self.query("stack", "export", "-s", name)
        return exported.get("deployment") or {}

    def outputs(self, name: str) -> dict[str, Any]:
        """Return the stack's outputs.

        Raises:
            CommandError: The CLI has no such stack, or refuses.
        """
        return self.query("stack", "output", "--json", "-s", name)


EVENTS = {"PULUMI_DEBUG_COMMANDS": "true"}
"""Environment in which the CLI writes its events to a file."""


def event_log(file: Path) -> list[str]:
    """Return the arguments that make the CLI write its events to a file."""
    return ["--event-log", str(file)]
