"""`gke-inference preview`: the changes of an `up`, with the policies, on the twin."""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from scripts.shared.data_loss import refuse_losses
from scripts.shared.engine import (
    Engine,
    OfficialOption,
    check_file,
    official_to_preview,
)
from scripts.shared.platform_state import with_platform
from scripts.shared.program_hosts import program_hosts
from scripts.shared.pulumi_cli import EVENTS, PulumiCli, event_log
from scripts.terminal.console import CheckFailedError, CommandError
from scripts.terminal.options import StackOption, stack_of
from scripts.terminal.output_files import check_output, write_output
from scripts.terminal.where import OnOption, Where, say_where
from twin.host.paths import TwinPaths

_CHANGE = re.compile(r"^\s+[+~\-]+ ?\d+ .*$|^\s+\d+ (?:un|)changed.*$")
_COMMENT_LINES = 400


def markdown(stack: str, output: str, succeeded: bool) -> str:
    """Return the pull request comment: the counts, and the preview in a folded section.

    Args:
        stack: Name of the stack.
        output: Output of `pulumi preview`, without colors.
        succeeded: Whether the preview succeeded.
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
    stack: StackOption,
    diff: Annotated[bool, typer.Option("--diff", help="Show every changed property.")] = False,
    comment: Annotated[
        Path | None, typer.Option(help="Append a pull request comment to this file.")
    ] = None,
    on: OnOption = Where.TWIN,
    official: OfficialOption = False,
) -> None:
    """Preview a stack with the policy pack; changes nothing.

    In Google Cloud, compares with the deployed stack, by the Pulumi CLI and backend of this shell.
    Exits 1 if the update breaks a mandatory policy, or deletes or replaces a protected resource.
    """
    if on.is_cloud and official:
        raise CommandError("--official: must be omitted with --on cloud: your own plugins run")
    check_file(stack)
    check_output("--comment", comment)
    engine = PulumiCli({}) if on.is_cloud else _on_twin(stack, official=official)
    say_where(on, stack_of(stack).project)
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder) / "events.json"
        arguments = ["preview", "-s", stack, "--policy-pack", "policies", *event_log(events)]
        arguments += ["--diff"] if diff else []
        arguments += [] if comment is None else ["--color", "never", "--non-interactive"]
        with _platform(engine, stack) as variables:
            environment = {**EVENTS, **variables}
            answer = engine.run(*arguments, capture=comment is not None, environment=environment)
        if comment is not None:
            sys.stdout.write(answer.stdout)
            sys.stderr.write(answer.stderr)
        if comment is not None:
            write_output("--comment", comment, lambda file: _comment(file, stack, answer, events))
        refuse_losses(
            stack, events
        )  # first, because the engine also refuses to delete protected resources
        if answer.returncode:
            if breaks_policy(events):
                raise CheckFailedError(f"{stack}: breaks a mandatory policy; see above")
            raise CommandError(f"the preview of {stack} failed; see above")


@contextmanager
def _platform(engine: PulumiCli, stack: str) -> Generator[dict[str, str]]:
    """Yield the environment variables that locate the platform of a serving stack."""
    if isinstance(engine, Engine):
        with with_platform(engine, stack) as variables:
            yield variables
    else:
        yield {}  # the platform is in the backend of this shell


def _on_twin(stack: str, *, official: bool) -> Engine:
    paths, plugins = TwinPaths.default(), official_to_preview(official)
    engine = Engine(paths, official=plugins, hosts=program_hosts(paths, plugins))
    engine.ensure_stack(stack)
    return engine


def breaks_policy(events: Path) -> bool:
    """Return whether the engine's event log has a violation of a mandatory policy."""
    if not events.exists():
        return False
    read = (json.loads(line) for line in events.read_text("utf-8").splitlines() if line.strip())
    return any(
        event.get("policyEvent", {}).get("enforcementLevel") == "mandatory" for event in read
    )


def _comment(
    file: Path, stack: str, answer: subprocess.CompletedProcess[str], events: Path
) -> None:
    """Append the comment; a loss fails the preview, as a policy does."""
    output, succeeded = answer.stdout + answer.stderr, answer.returncode == 0
    try:
        refuse_losses(stack, events)
    except CommandError as error:
        output, succeeded = f"{output}\n{error}", False
    with file.open("a") as stream:
        stream.write(markdown(stack, output, succeeded))
