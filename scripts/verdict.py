"""`gke-inference verdict`: what a change does to each stack, before anything is touched."""

import json
import signal
import subprocess
from collections.abc import Iterator
from concurrent import futures
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from scripts.console import CommandError, Exit, console
from scripts.outputs import check_output, write_output
from scripts.verdicts.checkouts import (
    Checkout,
    base_checkout,
    base_commit,
    changed_files,
    head_checkout,
    touches,
)
from scripts.verdicts.markdown import comment
from scripts.verdicts.money import money_as_json
from scripts.verdicts.pictures import svg
from scripts.verdicts.runs import runner
from scripts.verdicts.terminal import lines
from scripts.verdicts.verdict import StackVerdict, Verdict, of_stack
from scripts.words import check_words

_AT_ONCE = 2


def chosen(names: list[str], base: Checkout, head: Checkout) -> list[str]:
    """Return the stacks to look at: those named, or all of both sides.

    Raises:
        CommandError: a name that neither side has, or no side has any.
    """
    known = sorted({*base.stacks(), *head.stacks()})
    check_any(known, head.root)
    check_words("--stack", names, known)
    return list(dict.fromkeys(names)) or known


def check_any(stacks: list[str], head: Path) -> None:
    """Refuse a checkout, or a folder below its root, that has no stacks.

    Raises:
        CommandError: there are none.
    """
    if not stacks:
        raise CommandError(f"--head: must have stacks/Pulumi.NAME.yaml, got none in {head}")


def checked_head(head: Path) -> Path:
    """Return a checkout as a whole path.

    Raises:
        CommandError: it is no folder, or none of a repository.
    """
    wanted = f"--head: must be a checkout of git, got {str(head)!r}"
    if not head.is_dir():
        raise CommandError(f"{wanted}: there is no such folder")
    argv = ["git", "-C", str(head), "rev-parse", "--git-dir"]
    try:
        answer = subprocess.run(argv, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise CommandError("git: must be on PATH, it reads the base's files") from None
    if answer.returncode:
        said = answer.stderr.strip().removeprefix("fatal: ").splitlines() or ["git refuses"]
        raise CommandError(f"{wanted}: {said[0]}")
    return head.resolve()


def judge(head: Path, base: str, names: list[str]) -> Verdict:
    """Return the verdict on what `head`, a working tree, changes since it left `base`.

    Raises:
        CommandError: no such commit or stack.
    """
    head = checked_head(head)
    commit = base_commit(head, base)
    files = changed_files(head, commit)
    new = head_checkout(head)
    with base_checkout(head, base, commit) as old:
        wanted = chosen(names, old, new)
        touched = [name for name in wanted if touches(name, files)]
        found = tuple(_each(touched, old, new))
        untouched = tuple(name for name in wanted if name not in touched)
        return Verdict(old.name, new.name, found, untouched)


def _each(stacks: list[str], old: Checkout, new: Checkout) -> Iterator[StackVerdict]:
    if not stacks:
        return
    with runner() as cli, futures.ThreadPoolExecutor(_AT_ONCE) as pool:
        running = [pool.submit(of_stack, cli, name, old, new) for name in stacks]
        try:
            yield from (each.result() for each in running)
        finally:  # interrupted: what has not begun does not begin
            for each in running:
                each.cancel()
            cli.stop()


def as_json(verdict: Verdict) -> str:
    """Return a verdict as JSON: everything the comment says, and what it leaves out."""
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
        "counts": counts,
        "blocks": one.blocks,
        "note": one.note,
    }


def _write_comment(found: Verdict, file: Path) -> None:
    """Write the comment, and a picture of each stack that changes beside it."""
    file.write_text(comment(found))
    for one in found.stacks:
        if one.topology.clusters:
            picture = file.with_name(f"{file.stem}-{one.stack}.svg")
            picture.write_text(svg(one.topology, f"What changes in {one.stack}"))


def verdict(
    base: Annotated[str, typer.Option(help="Commit, branch or tag to compare with.")] = "main",
    head: Annotated[
        Path, typer.Option(help="Checkout to judge; what is not committed counts.")
    ] = Path(),
    stack: Annotated[
        list[str] | None, typer.Option(help="Only this stack; may be repeated. Default: all.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write all of it here.")] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(help="Write a comment here; a picture of each stack that changes beside it."),
    ] = None,
) -> None:
    """Say what a change does to each stack; exit code 1 where it must not be merged as it is.

    Nothing is created, nothing is asked of a network and no credentials are needed: both checkouts
    run on the real engine, with providers that make up what a cloud would answer.
    """
    # ended from outside, it removes what it wrote, as it does when interrupted
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    check_output("--json", json_file)
    check_output("--markdown", markdown)
    found = judge(head, base, stack or [])
    if json_file is not None:
        write_output("--json", json_file, lambda file: file.write_text(as_json(found)))
    if markdown is not None:
        write_output("--markdown", markdown, lambda file: _write_comment(found, file))
    for line in lines(found):
        console.print(line, markup=False, soft_wrap=True)
    if found.blocks:
        raise typer.Exit(Exit.NO)
    if found.unread:
        raise CommandError("; ".join(f"{one.stack}: {one.error}" for one in found.unread))
