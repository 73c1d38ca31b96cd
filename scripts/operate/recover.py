"""`gke-inference recover`: repairs a state after an interrupted `pulumi up` or `destroy`."""

from typing import Annotated

import typer

from scripts.backend.choose import open_backend
from scripts.backend.recovery import pending_operations, reconcile
from scripts.terminal.console import console
from scripts.terminal.options import StackOption
from scripts.terminal.where import OnOption, Where


def recover(
    stack: StackOption = "local",
    on: OnOption = Where.TWIN,
    yes: Annotated[bool, typer.Option("--yes", help="Change the state without asking.")] = False,
) -> None:
    """Reconcile the state of a stack with the cloud after an interrupted run.

    Imports finished creations, drops unfinished ones, and refreshes every resource. Changes only
    the state, and nothing if the last run completed. `up` and `down` do the same on the twin.
    """
    with open_backend(stack, cloud=on.is_cloud) as backend:
        engine = backend.pulumi()
        pending = pending_operations(engine.deployment(stack), backend.find)
        for each in pending:
            console.print(str(each), markup=False, soft_wrap=True)
        if not pending:
            console.print(f"No run of {stack} was interrupted: nothing to recover.")
            return
        if not yes and not typer.confirm(f"Change the state of {stack}?"):
            console.print("Nothing was changed.")
            return
        reconcile(engine, stack, pending)
    console.print(
        f"The state of {stack} matches {backend.label}: run the interrupted command again."
    )
