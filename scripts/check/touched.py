"""`gke-inference touched`: the stacks that changes since a commit can affect."""

from pathlib import Path
from typing import Annotated

import typer

from scripts.terminal.options import StacksOption, check_words
from scripts.verdicts.checkouts import (
    base_commit,
    changed_files,
    check_has_stacks,
    checked_head,
    head_checkout,
    platform_on,
    touches,
)


def touched(
    since: Annotated[str, typer.Option(help="Commit, branch or tag to compare with.")],
    stack: StacksOption = None,
    head: Annotated[
        Path, typer.Option(help="Checkout to compare; uncommitted changes count.")
    ] = Path(),
) -> None:
    """List the stacks affected by changes since a commit, one per line.

    Prints nothing if none are affected. A changed file affects every stack, except another stack's
    file and files that no stack depends on, such as documents and tests.
    """
    root = checked_head(head)
    checkout = head_checkout(root)
    known = checkout.stacks()
    check_has_stacks(known, root)
    check_words("--stack", stack or [], known)
    files = changed_files(root, base_commit(root, since, "--since"))
    for name in stack or known:
        if touches(name, files, platform_on(name, (checkout,))):
            print(name)
