"""Compares every stack of two working trees, and prints what was found."""

from collections.abc import Iterator, Mapping
from concurrent import futures
from pathlib import Path

import typer

from scripts.terminal.console import CommandError, console
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.options import check_words
from scripts.verdicts.checkouts import (
    Checkout,
    base_checkout,
    base_commit,
    changed_files,
    check_has_stacks,
    checked_head,
    edited_checkout,
    platform_on,
    touches,
)
from scripts.verdicts.runs import runner
from scripts.verdicts.terminal import lines
from scripts.verdicts.verdict import StackVerdict, Verdict, of_stack
from twin.pulumi.official import OfficialPlugins

_AT_ONCE = 2


def chosen(names: list[str], base: Checkout, head: Checkout) -> list[str]:
    """Return the stacks to compare: the named ones, or all stacks of both sides.

    Raises:
        CommandError: Neither side has a stack of a name, or any stack.
    """
    known = sorted({*base.stacks(), *head.stacks()})
    check_has_stacks(known, head.root)
    check_words("--stack", names, known)
    return list(dict.fromkeys(names)) or known


def judge(
    head: Path,
    base: str,
    names: list[str],
    official: OfficialPlugins | None = None,
    texts: Mapping[str, str] | None = None,
) -> Verdict:
    """Return the verdict on the changes of `head`, a working tree, since its merge base.

    Args:
        head: Working tree.
        base: Commit, branch or tag.
        names: Names of the stacks to compare; empty for all.
        official: Language host that runs the programs instead of the twin's own.
        texts: Texts of files that are not written yet, by path in `head`.

    Raises:
        CommandError: The commit or stack does not exist.
    """
    head = checked_head(head)
    commit = base_commit(head, base)
    files = sorted(set(changed_files(head, commit)).union(texts or {}))
    with (
        edited_checkout(head, texts or {}) as new,
        base_checkout(head, base, commit) as old,
    ):
        wanted = chosen(names, old, new)
        touched = [name for name in wanted if touches(name, files, platform_on(name, (new, old)))]
        found = tuple(_each(touched, old, new, official))
        untouched = tuple(name for name in wanted if name not in touched)
        return Verdict(old.name, new.name, found, untouched)


def _each(
    stacks: list[str], old: Checkout, new: Checkout, official: OfficialPlugins | None
) -> Iterator[StackVerdict]:
    if not stacks:
        return
    with runner(official) as cli, futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        running = [pool.submit(of_stack, cli, name, old, new) for name in stacks]
        try:
            yield from (each.result() for each in running)
        finally:  # interrupted: cancel the comparisons that have not started
            for each in running:
                each.cancel()
            cli.stop()


def report(found: Verdict) -> None:
    """Print a verdict.

    Raises:
        typer.Exit: The change must not be merged as it is.
        CommandError: A stack could not be compared.
    """
    for line in lines(found):
        console.print(line, markup=False, soft_wrap=True)
    conclude(found)


def conclude(found: Verdict) -> None:
    """End the command as a verdict demands.

    Raises:
        typer.Exit: The change must not be merged as it is.
        CommandError: A stack could not be compared.
    """
    if found.blocks:
        raise typer.Exit(ExitCode.CHECK_FAILED)
    if found.unread:
        raise CommandError("; ".join(f"{one.stack}: {one.error}" for one in found.unread))
