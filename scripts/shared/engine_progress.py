"""Runs an update with the Pulumi CLI, and prints a line for each component, not each resource.

The CLI writes its events to a file (`--event-log`), one JSON object per line, in the format of
`sdk/go/common/apitype/events.go` in pulumi/pulumi. Of its own output, the diagnostics and the
summary are printed at the end.
"""

import json
import math
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import typer
from rich.markup import escape

from scripts.shared.pulumi_cli import EVENTS, PulumiCli, event_log
from scripts.terminal.console import console

VerboseOption = Annotated[
    bool, typer.Option("--verbose", help="Show each resource, and all outputs of the stack.")
]
"""Option of the commands that run an update."""

_SECTIONS = ("Diagnostics:", "Policies:", "Resources:")
_STYLE = re.compile(r"\x1b\[[0-9;]*m|<\{%[^%]*%\}>")
_POLL_SECONDS = 0.2
_SETTLED_SECONDS = 4.0
"""A component without changes for so long gets its line; the engine does not know when it ends."""
_QUIET_SECONDS = 30.0
"""After so long without a line, output that is no terminal shows what the update waits for."""
_OURS: Final = "gke-inference:"
_PAST: Final = {
    "create": "created",
    "create-replacement": "replaced",
    "update": "updated",
    "delete": "deleted",
    "import": "imported",
}
"""Operations that change a resource; the deletion behind a replacement belongs to it."""


@dataclass
class Progress:
    """What the events of an update say so far."""

    changed: int = 0
    """Resources with a finished change, components not included."""
    _statuses: dict[str, str] = field(default_factory=dict[str, str])
    """Latest status message of each resource that has yet to finish, the oldest first."""
    _parents: dict[str, str] = field(default_factory=dict[str, str])
    _changes: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    _running: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Resources with an unfinished change, by their component."""
    _last: dict[str, float] = field(default_factory=dict[str, float])
    """When a resource of a component changed last, for each without a line."""

    @property
    def status(self) -> str:
        """Latest status message of a resource that has yet to finish.

        Such as `a-gpu: 0 of 2 replicas ready`, or the reason why a Gateway is not programmed.
        """
        return next(reversed(self._statuses.values()), "")

    def take(self, event: dict[str, Any], now: float) -> None:
        """Take an event.

        Args:
            event: Event of the CLI.
            now: Seconds, on any clock.
        """
        diagnostic = event.get("diagnosticEvent")
        if diagnostic is not None:
            text = plain(str(diagnostic.get("message", "")))
            if diagnostic.get("ephemeral") and text:
                urn = str(diagnostic.get("urn", ""))
                self._statuses.pop(urn, None)
                self._statuses[urn] = f"{_name(urn)}: {text}"
            return
        for kind, note in (
            ("resourcePreEvent", self._begin),
            ("resOutputsEvent", self._finish),
            ("resOpFailedEvent", self._fail),
        ):
            found: dict[str, Any] = event.get(kind) or {}
            metadata: dict[str, Any] | None = found.get("metadata")
            if metadata is not None:
                state: dict[str, Any] = metadata.get("new") or metadata.get("old") or {}
                self._parents[str(metadata["urn"])] = str(state.get("parent") or "")
                note(str(metadata["urn"]), str(metadata["op"]), now)
                return

    def lines(self, now: float) -> Iterator[str]:
        """Yield the lines of components in which nothing has changed for a while.

        Args:
            now: Seconds, on the clock of the events; infinite at the end of the update.
        """
        for urn, last in list(self._last.items()):
            is_settled = not self._running.get(urn) and now - last >= _SETTLED_SECONDS
            if is_settled or math.isinf(now):
                del self._last[urn]
                counts = sorted(self._changes.pop(urn).items())
                yield f"{_label(urn)}: {', '.join(f'{count} {done}' for done, count in counts)}"

    def _begin(self, urn: str, op: str, _now: float) -> None:
        if op in _PAST and not _is_ours(urn):
            self._running.setdefault(self._owner(urn), set()).add(urn)

    def _finish(self, urn: str, op: str, now: float) -> None:
        self._statuses.pop(urn, None)
        done = _PAST.get(op)
        if done is None or _is_ours(urn):
            return
        self.changed += 1
        owner = self._owner(urn)
        self._running.get(owner, set()).discard(urn)
        counts = self._changes.setdefault(owner, {})
        counts[done] = counts.get(done, 0) + 1
        self._last[owner] = now

    def _fail(self, urn: str, _op: str, _now: float) -> None:
        self._statuses.pop(urn, None)

    def _owner(self, urn: str) -> str:
        """Return the component that a resource is in; empty for the stack itself."""
        owner = self._parents.get(urn, "")
        while owner and not _is_ours(owner):
            owner = self._parents.get(owner, "")
        return owner


def run_update(cli: PulumiCli, *arguments: str, is_verbose: bool = False) -> int:
    """Run an update and show its progress; return the exit code of the CLI.

    Args:
        cli: The Pulumi CLI.
        arguments: Command and options.
        is_verbose: Whether to show the CLI's own output: each resource, and all outputs.
    """
    if is_verbose:
        return cli.run(*arguments).returncode
    with tempfile.TemporaryDirectory() as folder:
        events, output = Path(folder) / "events.json", Path(folder) / "output"
        events.touch()
        options = (*event_log(events), "--suppress-outputs", "--suppress-progress")
        with cli.attached(arguments[0], EVENTS) as more:
            with output.open("w") as written:
                environment = {**EVENTS, **more}
                process = cli.start(*arguments, *options, output=written, environment=environment)
            try:
                with events.open() as file:
                    _follow(process, file)
            except BaseException:
                process.kill()
                process.wait()
                raise
        console.print(end_of(output.read_text()), markup=False, highlight=False, soft_wrap=True)
        return process.returncode


def _follow(process: "subprocess.Popen[str]", file: TextIO) -> None:
    """Print the lines of components until the process has ended."""
    progress = Progress()
    begun = time.monotonic()

    def state() -> str:
        seconds = time.monotonic() - begun
        parts = [f"{progress.changed} resources changed, {seconds:.0f} s", progress.status]
        return escape("; ".join(filter(None, parts)))

    if console.is_terminal:
        with console.status("Deploying") as shown:
            _lines(process, file, progress, lambda _: shown.update(state()))
        return

    def show(quiet: float) -> bool:
        if quiet < _QUIET_SECONDS:
            return False
        console.print(f"  {state()}", soft_wrap=True)
        return True

    _lines(process, file, progress, show)


def _lines(
    process: "subprocess.Popen[str]",
    file: TextIO,
    progress: Progress,
    show: Callable[[float], bool | None],
) -> None:
    """Print the lines of components until the process has ended.

    Args:
        process: The CLI.
        file: Its events.
        progress: Takes the events.
        show: Gets the seconds since the last line; returns whether it has printed one.
    """
    half, last = "", time.monotonic()
    is_running = True
    while is_running:
        is_running = process.poll() is None
        *whole, half = (half + file.read()).split("\n")
        now = time.monotonic()
        for text in filter(None, whole):
            progress.take(json.loads(text), now)
        lines = list(progress.lines(now if is_running else math.inf))
        for line in lines:
            console.print(f"  {line}", markup=False, soft_wrap=True)
        if lines or (is_running and show(now - last)):
            last = now
        if is_running:
            time.sleep(_POLL_SECONDS)


def end_of(output: str) -> str:
    """Return the output of an update from its diagnostics on, or all of it if it has none."""
    lines = output.splitlines()
    ends = (at for at, line in enumerate(lines) if plain(line) in _SECTIONS)
    return "\n".join(lines[next(ends, 0) :]).strip("\n").replace("\n\nDuration:", "\nDuration:")


def plain(text: str) -> str:
    """Return a text of the CLI without its styles, as one line."""
    return " ".join(_STYLE.sub("", text).split())


def _is_ours(urn: str) -> bool:
    return _kind(urn).startswith(_OURS)


def _kind(urn: str) -> str:
    return urn.split("::")[2].rpartition("$")[2] if urn.count("::") >= 3 else ""


def _name(urn: str) -> str:
    return urn.split("::", 3)[-1] or "stack"


def _label(urn: str) -> str:
    """Return what a reader calls a component: `ModelServer us-central1-llama-3-1-8b`."""
    return f"{_kind(urn).rpartition(':')[2]} {_name(urn)}" if urn else "Outside components"
