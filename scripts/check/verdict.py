"""`gke-inference verdict`: the effects of a change on each stack, before it is deployed."""

import json
import signal
from collections.abc import Iterator, Mapping
from concurrent import futures
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from scripts.shared.engine import OfficialOption, official_host
from scripts.terminal.console import CommandError, console
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.options import StacksOption, check_words
from scripts.terminal.output_files import check_output, write_output
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
from scripts.verdicts.diagrams import svg
from scripts.verdicts.markdown import comment
from scripts.verdicts.money import money_as_json
from scripts.verdicts.rehearsed import rehearsed_as_json
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
    files = sorted({*changed_files(head, commit), *(texts or {})})
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


def as_json(verdict: Verdict) -> str:
    """Return a verdict as JSON: the content of the comment, uncut."""
    body: dict[str, Any] = {
        "verdict": verdict.word,
        "base": verdict.base,
        "head": verdict.head,
        "blocks": verdict.blocks,
        "untouched": verdict.untouched,
        "stacks": {each.stack: _stack(each) for each in verdict.stacks},
    }
    return json.dumps(body, indent=1, ensure_ascii=False) + "\n"


def _stack(one: StackVerdict) -> dict[str, Any]:
    counts = {kind.value: count for kind, count in one.counts.items()}
    return {
        **asdict(one),
        "money": money_as_json(one.money),
        "rehearsal": rehearsed_as_json(one.rehearsal),
        "counts": counts,
        "blocks": one.blocks,
        "note": one.note,
    }


def _write_comment(found: Verdict, file: Path) -> None:
    """Write the comment, and a diagram of each changed stack beside it."""
    file.write_text(comment(found))
    for one in found.stacks:
        if one.topology.clusters:
            picture = file.with_name(f"{file.stem}-{one.stack}.svg")
            picture.write_text(svg(one.topology, f"What changes in {one.stack}"))


def verdict(
    base: Annotated[str, typer.Option(help="Commit, branch or tag to compare with.")] = "main",
    head: Annotated[
        Path, typer.Option(help="Checkout to judge; uncommitted changes count.")
    ] = Path(),
    stack: StacksOption = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write the result to this file as JSON.")
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            help="Write a pull request comment to this file, and a diagram of each changed stack"
            " beside it."
        ),
    ] = None,
    official: OfficialOption = False,
) -> None:
    """Show what a change does to each stack. Exits 1 if it must not be merged as it is.

    Creates nothing and needs neither network nor credentials: both checkouts run on the real
    engine, with providers that simulate the cloud's answers.
    """
    # remove temporary files on termination, as on an interrupt
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    check_output("--json", json_file)
    check_output("--markdown", markdown)
    found = judge(head, base, stack or [], official_host(official))
    if json_file is not None:
        write_output("--json", json_file, lambda file: file.write_text(as_json(found)))
    if markdown is not None:
        write_output("--markdown", markdown, lambda file: _write_comment(found, file))
    report(found)


def report(found: Verdict) -> None:
    """Print a verdict.

    Raises:
        typer.Exit: The change must not be merged as it is.
        CommandError: A stack could not be compared.
    """
    for line in lines(found):
        console.print(line, markup=False, soft_wrap=True)
    if found.blocks:
        raise typer.Exit(ExitCode.CHECK_FAILED)
    if found.unread:
        raise CommandError("; ".join(f"{one.stack}: {one.error}" for one in found.unread))
