"""`gke-inference touched`: which stacks the changes since a commit can touch."""

from pathlib import Path
from typing import Annotated

import typer

from scripts.options import check_words
from scripts.verdict import check_any, checked_head
from scripts.verdicts.checkouts import base_commit, changed_files, head_checkout, touches


def touched(
    since: Annotated[str, typer.Option(help="Commit, branch or tag to compare with.")],
    stack: Annotated[
        list[str] | None, typer.Option(help="Only this stack; may be repeated. Default: all.")
    ] = None,
    head: Annotated[
        Path, typer.Option(help="Checkout to look at; what is not committed counts.")
    ] = Path(),
) -> None:
    """Print the stacks that the changes since a commit can touch, one a line; none is no line.

    A changed file touches every stack, except another stack's file and what no stack is made of,
    such as documents and tests.
    """
    root = checked_head(head)
    known = head_checkout(root).stacks()
    check_any(known, root)
    check_words("--stack", stack or [], known)
    files = changed_files(root, base_commit(root, since, "--since"))
    for name in stack or known:
        if touches(name, files):
            print(name)
