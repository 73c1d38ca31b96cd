"""Gives a canary a share, by the way in which its stack is delivered."""

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from infra.plan.names import Names
from infra.reading.load import STACKS
from infra.stack import DeliveryKind, DeliveryTool
from infra.stack.problems import StackError
from scripts.backend.backend import Backend
from scripts.canary.percent import write_percent
from scripts.delivery.status import find_delivered
from scripts.delivery.tree import write_tree
from scripts.delivery.writing import stack_tree
from scripts.shared.clusters import close
from scripts.shared.engine import Engine
from scripts.shared.preview_states import manifests, preview_states
from scripts.terminal.console import CommandError, one_line
from scripts.terminal.options import plan_of
from twin.host.paths import TwinPaths


@dataclass(frozen=True)
class Rollout:
    """How a share gets from the stack file to the gateway."""

    stack: str
    model: str
    backend: Backend
    git: Path | None
    """Checkout of the repository that delivers the stack; None where Pulumi does."""
    sleep: Callable[[float], None]
    limit_seconds: float = 600.0

    def set_percent(self, percent: int) -> None:
        """Give the canary a share, and wait until it is in the clusters.

        Raises:
            CommandError: The stack cannot be deployed; the file has the share.
        """
        try:
            write_percent(self.stack, self.model, percent, STACKS)
        except StackError as error:
            raise CommandError(str(error)) from None
        if self.git is None:
            self._up()
        else:
            self._wait(self._commit(self.git, percent))

    def _up(self) -> None:
        cli = self.backend.pulumi()
        answer = cli.run("up", "--yes", "--skip-preview", "-s", self.stack, capture=True)
        if answer.returncode:
            said = one_line((answer.stderr or answer.stdout)[-2000:])
            raise CommandError(f"up of {self.stack} failed: {said}")

    def _commit(self, git: Path, percent: int) -> str:
        """Render, commit, push where there is somewhere to push to, and return the commit."""
        states = preview_states(Engine(TwinPaths.default()), self.stack)
        tree = stack_tree(plan_of(self.stack), manifests(states))
        if write_tree(tree, git):
            _git(git, "add", "--all", *sorted({str(Path(path).parent) for path in tree.files}))
            _git(
                git,
                "commit",
                "--quiet",
                "--message",
                f"Give the canary of {self.model} {percent} %",
            )
        if _git(git, "remote"):
            _git(git, "push", "--quiet")
        return _git(git, "rev-parse", "HEAD")

    def _wait(self, commit: str) -> None:
        """Wait until every cluster has a commit.

        Raises:
            CommandError: One refuses it, or does not have it in time.
        """
        plan = plan_of(self.stack)
        names = {region.cluster_name for region in plan.regions.values() if region.served}
        clusters = [each for each in self.backend.clusters() if each.name in names]
        tool = plan.platform.delivery.tool or DeliveryTool.CONFIG_SYNC
        waited = 0.0
        try:
            while True:
                found = find_delivered(clusters, Names(plan.platform).namespace(), tool)
                if all(one.synced == commit for one in found):
                    return
                for one in found:
                    if one.revision == commit and one.errors:
                        raise CommandError(f"cluster {one.cluster}: {'; '.join(one.errors)}")
                if waited >= self.limit_seconds:
                    late = ", ".join(one.cluster for one in found if one.synced != commit)
                    raise CommandError(f"{late}: must have {commit[:12]} within {waited:.0f} s")
                self.sleep(1.0)
                waited += 1.0
        finally:
            close(clusters)


def check_git(stack: str, kind: DeliveryKind, git: Path | None) -> None:
    """Refuse a checkout that is missing, not needed, or not clean.

    Raises:
        CommandError: Names the option.
    """
    if kind is not DeliveryKind.GITOPS:
        if git is not None:
            raise CommandError(f"--git: must be omitted for {stack!r}, which Pulumi delivers")
        return
    if git is None:
        raise CommandError(f"--git: is required for {stack!r}, which is delivered from git")
    if not (git / ".git").exists():
        raise CommandError(f"--git: must be the top of a checkout, got {str(git)!r}")
    if _git(git, "status", "--porcelain"):
        raise CommandError(f"--git: must be a checkout without changes, got {str(git)!r}")


def _git(folder: Path, *arguments: str) -> str:
    """Return what git prints.

    Raises:
        CommandError: It fails.
    """
    try:
        ran = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise CommandError("git: must be on PATH") from None
    if ran.returncode:
        raise CommandError(f"git {arguments[0]}: {one_line(ran.stderr or ran.stdout)}")
    return ran.stdout.strip()
