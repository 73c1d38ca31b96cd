"""Sets the share of a canary, by the delivery of its stack."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from infra.reading.edit import changed
from infra.reading.load import STACKS, platform_in, settings_in, text_of
from infra.stack.problems import StackError
from scripts.accept.deployed import Deployed, Object
from scripts.backend.backend import Backend
from scripts.delivery.checkout import Checkout
from scripts.delivery.status import Delivered, find_delivered
from scripts.delivery.tree import Tree, is_written, write_tree
from scripts.delivery.writing import stack_tree
from scripts.shared.clusters import close
from scripts.shared.engine import Engine
from scripts.shared.preview_states import manifests, preview_states
from scripts.terminal.console import CommandError, one_line
from scripts.terminal.options import plan_of
from twin.host.paths import TwinPaths
from twin.wire.kube import KubeError


@dataclass(frozen=True)
class Rollout:
    """Transfer of a share from the stack file to the gateway."""

    stack: str
    model: str
    backend: Backend
    git: Checkout | None
    """Checkout of the repository that delivers the stack; None if Pulumi does."""
    sleep: Callable[[float], None]
    limit_seconds: float = 600.0

    def check_rendered(self) -> None:
        """Check that the checkout matches the stack file, so that a step changes nothing else.

        Raises:
            CommandError: The message names the command to run.
        """
        if self.git is not None and not is_written(self._tree(), self.git.folder):
            raise CommandError(
                "--git: must match the stack, so that a step changes only the share;"
                f" commit what render --stack {self.stack} --git writes"
            )

    def set_percent(self, percent: int) -> None:
        """Set the canary's share, and wait until the clusters have it.

        Raises:
            CommandError: The stack cannot be deployed; the file has the share.
        """
        try:
            write_percent(self.stack, self.model, percent, STACKS)
        except StackError as error:
            raise CommandError(str(error)) from None
        if self.git is None:
            self._up()
            return
        tree = self._tree()
        write_tree(tree, self.git.folder)
        folders = {str(Path(path).parent) for path in tree.files}
        self.git.commit(folders, f"Set the canary of {self.model} to {percent}%")
        self._wait(self.git, self.git.push(), percent)

    def _up(self) -> None:
        cli = self.backend.pulumi()
        answer = cli.run("up", "--yes", "--skip-preview", "-s", self.stack, capture=True)
        if answer.returncode:
            said = one_line((answer.stderr or answer.stdout)[-2000:])
            raise CommandError(f"up of {self.stack} failed: {said}")

    def _tree(self) -> Tree:
        states = preview_states(Engine(TwinPaths.default()), self.stack)
        return stack_tree(plan_of(self.stack), self.stack, manifests(states))

    def _wait(self, git: Checkout, commit: str, percent: int) -> None:
        """Wait until every cluster has a commit or a later one.

        For a share of 0, errors of a cluster do not end the wait: they may have another cause, and
        giving up would leave the canary its share.

        Raises:
            CommandError: A cluster refuses the commit, or does not have it in time.
        """
        plan = plan_of(self.stack)
        names = {region.cluster_name for region in plan.regions.values() if region.served}
        clusters = [each for each in self.backend.clusters() if each.name in names]
        tool = plan.platform.delivery.applied_with
        if tool is None:  # Pulumi applied it already
            return
        namespace = plan.names.namespace()
        waited = 0.0
        try:
            while True:
                why, found = "", list[Delivered]()
                try:
                    found = find_delivered(clusters, namespace, tool)
                except CommandError as error:
                    why = f": {error}"
                late = names - {one.cluster for one in found if git.has(commit, one.synced)}
                if not late:
                    return
                for one in found:
                    if percent and one.tried == commit and one.errors:
                        raise CommandError(f"cluster {one.cluster}: {'; '.join(one.errors)}")
                if waited >= self.limit_seconds:
                    rule = f"must have {commit[:12]} within {waited:.0f} s"
                    raise CommandError(f"{', '.join(sorted(late))}: {rule}{why}")
                self.sleep(1.0)
                waited += 1.0
        finally:
            close(clusters)


def write_percent(stack: str, model: str, percent: int, folder: Path = STACKS) -> None:
    """Write the share of a model's canary into a stack file.

    Raises:
        StackError: The file is invalid, or would be with the share; it is unchanged.
    """
    file = folder / f"Pulumi.{stack}.yaml"
    text = text_of(file)
    platform_in(text, file.name)  # report errors of the file as every other command does

    def change(platform: Any) -> None:
        platform["models"][model]["canary"]["percent"] = percent

    text = changed(text, file.name, change, partial(settings_in, folder))
    file.write_text(text, encoding="utf-8")


def check_ready(deployed: Deployed, model: str) -> None:
    """Check that a canary has a ready replica in each of its clusters.

    Raises:
        CommandError: Names the cluster; nothing was changed.
    """
    settings = deployed.plan.platform.models[model]
    version = "" if settings.canary is None else settings.canary.version
    for served in deployed.plan.models[f"{model}-{version}"]:
        cluster = deployed.clusters[served.region]
        label = f"gke-inference/model={served.object_name}"
        try:
            pods = cluster.pods(label)
        except KubeError as error:
            raise CommandError(f"cluster {cluster.name}: {error.message}") from None
        if not any(_is_ready(pod) for pod in pods):
            raise CommandError(
                f"--model: must have a canary with a ready replica in {cluster.name}, got"
                f" {model!r}; see gke-inference status"
            )


def _is_ready(pod: Object) -> bool:
    status: Object = pod.get("status") or {}
    conditions: list[Object] = status.get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
