"""`gke-inference preview`: what an `up` would do, with the policies, on the twin."""

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from scripts.console import CommandError
from scripts.engine import Engine
from twin.paths import TwinPaths

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
    diff: Annotated[bool, typer.Option(help="Show every property that changes.")] = False,
    comment: Annotated[
        Path | None, typer.Option(help="Also append a Markdown comment to this file.")
    ] = None,
) -> None:
    """Preview a stack with the policy pack loaded; needs no cloud account and changes nothing."""
    engine = Engine(TwinPaths.default())
    engine.ensure_stack(stack)
    arguments = ["preview", "-s", stack, "--policy-pack", "policies"]
    arguments += ["--diff"] if diff else []
    if comment is None:
        answer = engine.run(*arguments)
    else:
        answer = engine.run(*arguments, "--color", "never", "--non-interactive", capture=True)
        sys.stdout.write(answer.stdout)
        sys.stderr.write(answer.stderr)
        with comment.open("a") as stream:
            stream.write(markdown(stack, answer.stdout + answer.stderr, answer.returncode == 0))
    if answer.returncode:
        raise CommandError(f"the preview of {stack} failed; see above")
