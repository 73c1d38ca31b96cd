"""`gke-inference sweep`: proves that nothing is left in the twin's cloud."""

import typer

from scripts.shared.leftovers import leftovers
from scripts.terminal.console import console
from scripts.terminal.exit_codes import ExitCode
from twin.host.paths import TwinPaths


def sweep() -> None:
    """List what is left in the twin's cloud. Exits 1 if anything is left."""
    left = leftovers(TwinPaths.default())
    for line in left:
        console.print(line, markup=False, soft_wrap=True)
    if left:
        raise typer.Exit(ExitCode.CHECK_FAILED)
    console.print("Nothing is left.")
