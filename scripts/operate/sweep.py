"""`gke-inference sweep`: checks that nothing is left of a stack; removes GKE's leftovers."""

from typing import Annotated

import typer

from scripts.backend.backend import Backend, Leftover, Maker
from scripts.backend.choose import check_only_with_cloud, open_backend
from scripts.terminal.console import CommandError, console
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.where import OnOption, Where


def sweep(
    on: OnOption = Where.TWIN,
    stack: Annotated[
        str, typer.Option(help="With --on cloud: the stack. On the twin, all stacks are checked.")
    ] = "",
    delete: Annotated[
        bool,
        typer.Option("--delete", help="Remove leftovers of deleted clusters; asks first."),
    ] = False,
    disks: Annotated[
        bool,
        typer.Option(
            "--disks", help="With --delete: also remove disks of volume claims and their data."
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="With --delete: remove without asking.")
    ] = False,
) -> None:
    """List what is left of a stack, or of the twin. Exits 1 if anything is left.

    With --delete, removes what GKE created for clusters that no longer exist: load balancers,
    endpoint groups and firewall rules. Use `pulumi destroy` for resources of the stack itself.
    """
    for name, value in {"disks": disks, "yes": yes}.items():
        if value and not delete:
            raise CommandError(f"--{name}: must be omitted without --delete")
    check_only_with_cloud(cloud=on.is_cloud, stack=stack)
    with open_backend(stack, cloud=on.is_cloud) as backend:
        left = backend.leftovers()
        if delete:
            left = _delete(backend, left, disks=disks, yes=yes)
    for each in left:
        console.print(str(each), markup=False, soft_wrap=True)
    if left:
        raise typer.Exit(ExitCode.CHECK_FAILED)
    console.print("Nothing is left.")


def _delete(backend: Backend, left: list[Leftover], *, disks: bool, yes: bool) -> list[Leftover]:
    """Remove leftovers of GKE after its clusters are gone, and return the rest.

    Raises:
        CommandError: A cluster exists that may still use it.
    """
    clusters = [each.name for each in left if each.kind == "cluster"]
    if clusters:
        raise CommandError(
            f"--delete: must be used after the clusters are gone, got {'; '.join(clusters)};"
            " run pulumi destroy first"
        )
    chosen = [each for each in left if each.maker is Maker.GKE and (disks or not each.has_data)]
    for each in chosen:
        console.print(f"delete {each}", markup=False, soft_wrap=True)
    if (
        chosen
        and not yes
        and not typer.confirm(f"Delete these {len(chosen)} from {backend.label}?")
    ):
        console.print("Nothing was changed.")
        return left
    for each in chosen:
        backend.remove(each)
        console.print(f"deleted {each}", markup=False, soft_wrap=True)
    return backend.leftovers() if chosen else left
