"""Runs `gke-inference plan --stack` on edited stacks of a folder, with the limits of a test."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from infra.reading.load import KEY, PROJECT
from scripts.app import build_app
from scripts.shared.quota_limits import TwinLimits
from tests.contract.infra.broken_stacks import edited
from twin.world.capacity import World
from twin.world.quota import QuotaLine


class Plans:
    """Stacks in a folder, and a twin that only limits quotas."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Read and write stacks in a folder."""
        self.folder = folder
        self._patch = monkeypatch
        monkeypatch.setattr("scripts.plan.stack.STACKS", folder)
        self.limit()

    def limit(self, *lines: dict[str, Any]) -> None:
        """Set the quotas of the project."""
        world = World(quota=tuple(QuotaLine.model_validate(line) for line in lines))
        self._patch.setattr("scripts.plan.stack.twin_limits", lambda: TwinLimits(world, []))

    def stack(self, name: str, base: str, *edits: tuple[str, Any]) -> Path:
        """Write a stack: a shipped one with other values at places such as `models/a/context`."""
        found = edited(base, [{"at": at.split("/"), "value": value} for at, value in edits])
        file = self.folder / f"Pulumi.{name}.yaml"
        file.write_text(yaml.safe_dump({"config": {f"{PROJECT}:{KEY}": found}}, sort_keys=False))
        return file

    def run(self, *arguments: str) -> Any:
        """Return the result of the command."""
        return CliRunner().invoke(build_app(("plan",)), ["plan", *arguments])

    def found(self, *arguments: str) -> Any:
        """Return what the command prints as JSON."""
        answer = self.run(*arguments, "-o", "json")
        assert answer.exit_code == 0, answer.exception
        return json.loads(answer.stdout)

    def proposed(self, *arguments: str) -> Any:
        """Return the proposed portfolio."""
        found = self.found(*arguments)
        return found["frontier"][found["proposed"]]


def amounts(portfolio: Any, *labels: str) -> dict[tuple[str | None, str], int]:
    """Return the use of quotas by region and label."""
    every = {(use["region"], use["quota"]): use["amount"] for use in portfolio["uses"]}
    return {key: amount for key, amount in every.items() if not labels or key[1] in labels}
