"""`gke-inference delivery`: the state of models that are delivered from Git."""

import time
from pathlib import Path
from typing import Annotated

import typer

from infra.plan import Plan
from infra.stack import DeliverySourceKind, DeliveryTool
from scripts.backend.choose import open_backend
from scripts.delivery.checkout import open_checkout, tree_folders
from scripts.delivery.rollback import History
from scripts.delivery.status import Delivered, find_delivered, print_delivered
from scripts.delivery.watching import DeliveryStatus, Watch
from scripts.shared.clusters import Cluster, close
from scripts.terminal.console import CommandError, console
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.options import StackOption, check_stack, plan_of
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.where import OnOption, Where

_LOOK_SECONDS = 1.0

delivery = typer.Typer()


@delivery.callback()
def delivery_group() -> None:
    """Track the delivery of models from Git."""


@delivery.command()
def status(
    stack: StackOption,
    revision: Annotated[
        str, typer.Option(help="Wait for this commit or digest; a prefix is enough.")
    ] = "",
    wait: Annotated[
        int, typer.Option(min=0, help="Maximum wait for every cluster to be synced, in seconds.")
    ] = 0,
    on: OnOption = Where.TWIN,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the revision, errors and unfinished rollouts of each cluster.

    Exits 1 if a cluster has errors or is behind the source.
    """
    check_stack(stack)
    plan, tool = _delivered_plan(stack)
    names = {region.cluster_name for region in plan.regions.values() if region.served}
    with open_backend(stack, cloud=on.is_cloud) as backend:
        clusters = [each for each in backend.clusters() if each.name in names]
        until = time.monotonic() + wait
        while True:
            found = find_delivered(clusters, plan.names.namespace(), tool)
            is_done = _is_done(found, plan, revision)
            if is_done or time.monotonic() >= until:
                break
            time.sleep(_LOOK_SECONDS)
        close(clusters)
    if output.is_data:
        print_data([one.as_json() for one in found], output)
    else:
        print_delivered(found)
    if not is_done:
        raise typer.Exit(ExitCode.CHECK_FAILED)


@delivery.command()
def watch(
    stack: StackOption,
    git: Annotated[Path, typer.Option(help="Checkout of the repository that delivers the stack.")],
    wait: Annotated[
        int, typer.Option(min=1, help="Maximum wait for every cluster, in seconds.")
    ] = 900,
    good: Annotated[
        str, typer.Option(help="Commit to roll back to. Default: the one before the last change.")
    ] = "",
    on: OnOption = Where.TWIN,
) -> None:
    """Wait until every cluster serves the last commit of a stack, or roll it back.

    Rolls back with a commit that restores the stack's folders. Exits 1 after a rollback.
    """
    check_stack(stack)
    plan, tool = _delivered_plan(stack)
    source = plan.platform.delivery.source
    if source is None or source.kind is not DeliverySourceKind.GIT:
        raise CommandError(f"--stack: must be delivered from git, got {stack!r}")
    history = History(open_checkout(plan, git, is_run=False), tree_folders(plan))
    names = tuple(region.cluster_name for region in plan.regions.values() if region.served)
    with open_backend(stack, cloud=on.is_cloud) as backend:
        clusters = [each for each in backend.clusters() if each.name in names]
        watched = Watch(
            history,
            names,
            lambda: _status(clusters, plan.names.namespace(), tool),
            time.monotonic,
            time.sleep,
            lambda line: console.print(line, soft_wrap=True, markup=False),
            float(wait),
        )
        try:
            is_served = watched.run(good)
        finally:
            close(clusters)
    if not is_served:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _status(clusters: list[Cluster], namespace: str, tool: DeliveryTool) -> DeliveryStatus:
    """Return the status of each cluster; one that does not answer hides no other."""
    seen, unseen = dict[str, Delivered](), dict[str, str]()
    for cluster in clusters:
        try:
            [seen[cluster.name]] = find_delivered([cluster], namespace, tool)
        except CommandError as error:
            unseen[cluster.name] = str(error)
    return DeliveryStatus(seen, unseen)


def _delivered_plan(stack: str) -> tuple[Plan, DeliveryTool]:
    """Return a stack that is delivered from a repository, and the tool that delivers it."""
    plan = plan_of(stack)
    delivery = plan.platform.delivery
    if delivery.applied_with is None or delivery.source is None:
        raise CommandError(
            f"--stack: must be a serving stack with delivery.kind gitops, got {stack!r}"
        )
    return plan, delivery.applied_with


def _is_done(found: list[Delivered], plan: Plan, revision: str) -> bool:
    """Return whether every cluster of the stack has what the source has, and it is ready."""
    wanted = sum(1 for region in plan.regions.values() if region.served)
    return len(found) == wanted and all(
        one.state == "synced" and one.synced.removeprefix("sha256:").startswith(revision)
        for one in found
    )
