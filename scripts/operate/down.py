"""`gke-inference down`: destroys the stacks on the twin, checks for leftovers, stops the twin."""

import shutil
from typing import Annotated

import typer

from infra.reading.load import serving_documents, stack_names
from policies.framework.reading import CLUSTER
from scripts.backend.backend import Maker
from scripts.backend.recovery import recover
from scripts.backend.twin import TwinBackend
from scripts.backend.twin_leftovers import booked, leftovers
from scripts.shared.engine import (
    Engine,
    OfficialOption,
    official_to_deploy,
)
from scripts.shared.engine_progress import run_update
from scripts.shared.platform_state import serving_stacks_up
from scripts.terminal.console import CheckFailedError, CommandError, console
from scripts.terminal.options import check_stack
from twin import daemon
from twin.cluster import lifecycle as clusters
from twin.cluster.base.context import ClusterSpec
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.pulumi.official import OfficialPlugins
from twin.world import store


def down(
    force: Annotated[
        bool,
        typer.Option("--force", help="Remove the twin without destroying its stacks first."),
    ] = False,
    stack: Annotated[
        str, typer.Option(help="Destroy only this stack, and leave the twin running.")
    ] = "",
    official: OfficialOption = False,
) -> None:
    """Destroy every stack on the twin, then stop the twin and remove its files.

    With --stack, destroys one stack. Exits 1, with nothing changed, if that stack is a platform
    whose serving stacks are up.
    """
    for name, is_given in (("official", official), ("stack", bool(stack))):
        if force and is_given:
            raise CommandError(f"--{name}: must not be given with --force, which destroys no stack")
    plugins = official_to_deploy(official)
    paths = TwinPaths.default()
    if not paths.root.exists():
        console.print("There is no twin: nothing to do.")
        return
    if stack:
        _down_one(paths, stack, plugins)
        return
    if not force:
        _destroy_stacks(paths, plugins)
        _remove_unknown_clusters(paths)
        left = leftovers(paths)
        if left:
            raise CommandError(
                f"the stacks are destroyed, but the twin has {'; '.join(map(str, left))}; destroy"
                " what another program created with that program, or run gke-inference down --force"
            )
        for name in booked(paths):
            console.print(f"Reservation {name} stays until its end, as it does on Google Cloud.")
        console.print("Nothing is left in the cloud.")
    daemon.shut_down(paths)
    still = processes.running(paths)
    if still:
        names = ", ".join(f"{name} ({pid})" for name, pid in still.items())
        raise CommandError(f"processes of the twin are still running: {names}")
    shutil.rmtree(paths.root)
    console.print("The twin is removed.")


def _down_one(paths: TwinPaths, stack: str, official: OfficialPlugins | None) -> None:
    """Destroy one stack.

    Raises:
        CheckFailedError: It is a platform, and serving stacks on it are up.
        CommandError: There is no such stack, or its destroy failed.
    """
    check_stack(stack)
    if not (paths.root / "pulumi-state").exists():
        console.print("There is no twin: nothing to do.")
        return
    engine = Engine(paths, official=official)
    if serving := serving_stacks_up(engine, stack):
        raise CheckFailedError(
            f"--stack: must be a platform without serving stacks, got {stack!r}; take down"
            f" {', '.join(serving)} first"
        )
    if not engine.deployment(stack).get("resources"):
        console.print(f"{stack} is not up: nothing to do.")
        return
    _destroy(engine, stack)
    console.print(f"{stack} is destroyed.")


def _destroy_stacks(paths: TwinPaths, official: OfficialPlugins | None) -> None:
    if not (paths.root / "pulumi-state").exists():
        return
    engine = Engine(paths, official=official)
    serving = serving_documents()
    # serving stacks are destroyed before their platform
    for stack in sorted(engine.stacks(), key=lambda name: name not in serving):
        if not engine.deployment(stack).get("resources"):
            continue
        if stack not in stack_names():
            raise CommandError(
                f"{stack}: is on the twin, but stacks/Pulumi.{stack}.yaml does not exist; restore "
                "the file, or run gke-inference down --force"
            )
        _destroy(engine, stack)


def _destroy(engine: Engine, stack: str) -> None:
    """Destroy a stack on the twin.

    Raises:
        CommandError: Pulumi fails.
    """
    engine.ensure_stack(stack)
    engine.wait_for_others(stack)
    daemon.repair(engine.paths)
    recover(engine, stack)
    destroy = ("destroy", "--yes", "--skip-preview", "-s", stack)
    if run_update(engine, *destroy) and not (
        _remove_what_gke_left(engine.paths) and run_update(engine, *destroy) == 0
    ):
        raise CommandError(f"destroy of {stack} failed; see above. Run it again to continue")


def _remove_what_gke_left(paths: TwinPaths) -> bool:
    """Remove leftovers of deleted clusters, like `sweep --delete`; return whether any existed."""
    if clusters.folders(paths):
        return False
    backend = TwinBackend("", paths)
    left = [each for each in backend.leftovers() if each.maker is Maker.GKE]
    for each in left:
        backend.remove(each)
        console.print(f"Removed a leftover of a cluster: {each}.", markup=False, soft_wrap=True)
    return bool(left)


def _remove_unknown_clusters(paths: TwinPaths) -> None:
    """Remove clusters without a cloud record, left by a failed creation."""
    known = {
        paths.cluster(row.outputs["location"], row.name)
        for row in store.list_resources(paths)
        if row.type == CLUSTER
    }
    for folder in clusters.folders(paths):
        if folder not in known:
            spec = ClusterSpec.load(folder)
            clusters.delete(spec.location, spec.name, paths)
            console.print(f"Removed a cluster that a failed creation left: {spec.name}.")
