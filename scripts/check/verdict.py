"""`gke-inference verdict`: the effects of a change on each stack, before it is deployed."""

import json
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from scripts.shared.engine import OfficialOption, official_host
from scripts.terminal.options import StacksOption
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.output_files import check_output, write_output
from scripts.verdicts.diagrams import svg
from scripts.verdicts.judging import conclude, judge, report
from scripts.verdicts.markdown import comment
from scripts.verdicts.money import money_as_json
from scripts.verdicts.rehearsed import rehearsed_as_json
from scripts.verdicts.verdict import StackVerdict, Verdict


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
    output: OutputOption = Output.TABLE,
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
    if output.is_data:
        print_data(json.loads(as_json(found)), output)
        conclude(found)
    else:
        report(found)
