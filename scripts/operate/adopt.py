"""`gke-inference adopt`: the import file that brings an existing platform under a stack."""

import json
from typing import Annotated

import typer

from scripts.operate.import_file import KINDS, IdError, import_file
from scripts.shared.engine import Engine
from scripts.shared.preview_states import preview_states
from scripts.terminal.console import CommandError, console
from scripts.terminal.options import StackOption, check_words, stack_of
from twin.host.paths import TwinPaths


def adopt(
    stack: StackOption,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help=f"Kind of resource to adopt: {', '.join(KINDS)}. Repeat for several; all by"
            " default.",
        ),
    ] = None,
) -> None:
    """Print the file for `pulumi import --file`: resources of a stack and their ids.

    Everything in the file must exist in Google Cloud under the name that the stack gives it. The
    command previews the stack on the twin and does not contact Google Cloud.
    """
    kinds = check_words("--kind", kind or [], KINDS) or KINDS
    stack_of(stack)
    console.stderr = True  # standard output is the file
    try:
        states = preview_states(Engine(TwinPaths.default()), stack)
    finally:
        console.stderr = False
    try:
        file = import_file(states, kinds)
    except IdError as error:
        raise CommandError(str(error)) from None
    if not file["resources"]:
        raise CommandError(f"{stack}: makes nothing of the kind {', '.join(kinds)}")
    print(json.dumps(file, indent=2))
