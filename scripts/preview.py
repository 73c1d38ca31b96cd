"""`gke-inference preview`: what an `up` would do, with the policies, on the twin."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from scripts.console import CommandError
from scripts.data_loss import EVENTS, event_log, refuse_losses
from scripts.engine import Engine, check_file
from scripts.output_files import check_output, write_output
from twin.host.paths import TwinPaths

_CHANGE = re.compile(r"^\s+[+~\-]+ ?\d+ .*$|^\s+\d+ (?:un|)changed.*$")
_COMMENT_LINES = 400


def markdown(stack: str, output: str, succeeded: bool) -> str:
    """Return the comment for a pull request: the counts, and the preview folded away.

    Args:
        stack: that was previewed.
        output: what `pulumi preview` printed, without colours.
        succeeded: whether it ended with success.
    """
    lines = output.rstrip().splitlines()
    counts = [line.strip() for line in lines if _CHANGE.match(line)]
    verdict = ", ".join(counts) if succeeded else "**failed**"
    if len(lines) > _COMMENT_LINES:
        cut = len(lines) - _COMMENT_LINES
        lines = [*lines[: _COMMENT_LINES // 2], f"… {cut} lines …", *lines[-_COMMENT_LINES // 2 :]]
    body = "\n".join(lines)
    return (
        f"### `{stack}`: {verdict or 'no changes'}\n\n"
        f"<details><summary>preview on the twin, with policies</summary>\n\n"
        f"```\n{body}\n```\n\n</details>\n"
    )


def preview(
    stack: Annotated[str, typer.Option(help="Environment: a file stacks/Pulumi.NAME.yaml.")],
    diff: Annotated[bool, typer.Option("--diff", help="Show every property that changes.")] = False,
    comment: Annotated[
        Path | None, typer.Option(help="Also append a Markdown comment to this file.")
    ] = None,
) -> None:
    """Preview a stack with the policy pack; changes nothing, fails where data would be lost."""
    check_file(stack)
    check_output("--comment", comment)
    engine = Engine(TwinPaths.default())
    engine.ensure_stack(stack)
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder) / "events.json"
        arguments = ["preview", "-s", stack, "--policy-pack", "policies", *event_log(events)]
        arguments += ["--diff"] if diff else []
        if comment is None:
            answer = engine.run(*arguments, environment=EVENTS)
        else:
            arguments += ["--color", "never", "--non-interactive"]
            answer = engine.run(*arguments, capture=True, environment=EVENTS)
            sys.stdout.write(answer.stdout)
            sys.stderr.write(answer.stderr)
        if comment is not None:
            write_output("--comment", comment, lambda file: _comment(file, stack, answer, events))
        if answer.returncode:
            raise CommandError(f"the preview of {stack} failed; see above")
        refuse_losses(stack, events)


def _comment(
    file: Path, stack: str, answer: subprocess.CompletedProcess[str], events: Path
) -> None:
    """Append the comment; what would be lost fails it, as a policy does."""
    output, succeeded = answer.stdout + answer.stderr, answer.returncode == 0
    if succeeded:
        try:
            refuse_losses(stack, events)
        except CommandError as error:
            output, succeeded = f"{output}\n{error}", False
    with file.open("a") as stream:
        stream.write(markdown(stack, output, succeeded))
