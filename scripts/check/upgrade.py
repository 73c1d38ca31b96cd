"""`gke-inference upgrade`: stack files in the words of this version, and what the upgrade does."""

import difflib
import subprocess
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from infra.reading.load import WITHIN, platform_of, read
from infra.stack.problems import StackError, unread
from infra.stack.renames import RENAMES, with_new_words
from scripts.shared.engine import OfficialOption, official_host
from scripts.terminal.console import CommandError, console
from scripts.terminal.options import StacksOption, check_words
from scripts.verdicts.checkouts import (
    base_commit,
    check_has_stacks,
    checked_head,
    head_checkout,
)
from scripts.verdicts.judging import judge, report


def rewritten(root: Path, stacks: list[str]) -> dict[str, str]:
    """Return the texts of the stack files that have old words, with the new ones.

    Args:
        root: Checkout.
        stacks: Names of the stacks.

    Returns:
        Texts by path in the checkout.

    Raises:
        CommandError: A file cannot be read, has changes that are not committed, or is no valid
            stack with the new words.
    """
    texts = {name: text for stack in stacks for name, text in _of_stack(root, stack)}
    for name in texts:
        _refuse_dirty(root, name)
    if texts:
        _refuse_invalid(root, texts)
    return texts


def _of_stack(root: Path, stack: str) -> list[tuple[str, str]]:
    name = f"stacks/Pulumi.{stack}.yaml"
    try:
        before = (root / name).read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name}: cannot be read: {unread(error)}") from None
    after, found = with_new_words(before, RENAMES, WITHIN)
    if found:
        return [(name, after)]
    try:
        platform_of(root / name)
    except StackError as error:
        raise CommandError(str(error)) from None
    return []


def _refuse_dirty(root: Path, name: str) -> None:
    command = ["git", "-C", str(root), "status", "--porcelain", "--", name]
    if subprocess.run(command, capture_output=True, text=True, check=True).stdout:
        raise CommandError(f"{name}: must be committed before it is rewritten")


def _refuse_invalid(root: Path, texts: dict[str, str]) -> None:
    """Check the new files, beside the unchanged ones, in a folder of their own."""
    with tempfile.TemporaryDirectory(prefix="gke-inference-upgrade-") as made:
        folder = Path(made)
        for file in (root / "stacks").glob("Pulumi.*.yaml"):
            text = texts.get(f"stacks/{file.name}")
            (folder / file.name).write_bytes(file.read_bytes() if text is None else text.encode())
        for name in texts:
            stack = Path(name).name.removeprefix("Pulumi.").removesuffix(".yaml")
            try:
                read(stack, folder)
            except StackError as error:
                lines = [f"{name}: {each.sentence()}" for each in error.problems]
                raise CommandError("\n".join(lines)) from None


def differences(root: Path, texts: dict[str, str]) -> list[str]:
    """Return the lines of a unified diff between files and their new texts."""
    return [
        line.rstrip("\r\n")
        for name, text in texts.items()
        for line in difflib.unified_diff(
            (root / name).read_bytes().decode("utf-8").splitlines(keepends=True),
            text.splitlines(keepends=True),
            f"a/{name}",
            f"b/{name}",
        )
    ]


def upgrade(
    base: Annotated[
        str,
        typer.Option("--from", help="Commit, branch or tag that is deployed, such as v0.1.0."),
    ],
    stack: StacksOption = None,
    head: Annotated[
        Path, typer.Option(help="Checkout of the new version, with your stack files.")
    ] = Path(),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the differences and the verdict; write nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Write the files without asking.")] = False,
    official: OfficialOption = False,
) -> None:
    """Rewrite stack files for this version, after a verdict on the whole upgrade.

    Renamed keys and values get their new words; comments and everything else stay. The verdict
    compares the stacks with those of the deployed version. Exits 1, and writes nothing, if it is
    *blocked*.
    """
    root = checked_head(head)
    base_commit(root, base, "--from")
    known = head_checkout(root).stacks()
    check_has_stacks(known, root)
    texts = rewritten(root, list(check_words("--stack", stack, known)) or known)
    for line in differences(root, texts):
        console.print(line, markup=False, soft_wrap=True)
    if not texts:
        console.print("No stack file has an old word.")
    report(judge(root, base, stack or [], official_host(official), texts))
    if not texts or dry_run:
        return
    if not yes and not typer.confirm(f"Write {', '.join(texts)}?"):
        raise CommandError("not confirmed; no file was written")
    for name, text in texts.items():
        (root / name).write_bytes(text.encode())
    console.print(f"Wrote {', '.join(texts)}.", soft_wrap=True)
