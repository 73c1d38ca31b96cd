"""Runs the Pulumi CLI in a project: with the environment of the user, or with another on top."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.terminal.console import CommandError, one_line
from twin.host.paths import REPOSITORY


class PulumiCli:
    """The `pulumi` on the PATH."""

    environment: Mapping[str, str]
    """Variables on top of the user's."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Take the variables on top of the user's."""
        self.environment = environment

    def run(
        self,
        *arguments: str,
        capture: bool = False,
        environment: Mapping[str, str] | None = None,
        project: Path = REPOSITORY,
    ) -> subprocess.CompletedProcess[str]:
        """Run `pulumi` in a project; its output is the user's unless `capture`.

        Raises:
            CommandError: There is no `pulumi` on the PATH.
        """
        try:
            return subprocess.run(
                ["pulumi", *arguments],
                cwd=project,
                env={**os.environ, **self.environment, **(environment or {})},
                text=True,
                capture_output=capture,
                check=False,
            )
        except FileNotFoundError:
            raise CommandError("pulumi: must be on PATH, found none") from None

    def query(self, *arguments: str) -> Any:
        """Run `pulumi` and return its JSON answer.

        Raises:
            CommandError: It failed; holds what it printed.
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
