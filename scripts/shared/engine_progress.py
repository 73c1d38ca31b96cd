"""Runs an update with the Pulumi CLI, and prints a line for each component, not each resource.

The CLI writes its events to a file (`--event-log`), one JSON object per line, in the format of
`sdk/go/common/apitype/events.go` in pulumi/pulumi. Of its own output, the diagnostics and the
summary are printed at the end.
"""

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TextIO

from scripts.shared.pulumi_cli import PulumiCli
from scripts.terminal.console import console

_SECTIONS = ("Diagnostics:", "Policies:", "Resources:")
_STYLE = re.compile(r"\x1b\[[0-9;]*m|<\{%[^%]*%\}>")
_POLL_SECONDS = 0.2
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
    status: str = ""
    """Latest status message of a resource, such as `a-gpu: 0 of 2 replicas ready`."""
    _parents: dict[str, str] = field(default_factory=dict[str, str])
    _changes: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])

    def take(self, event: dict[str, Any]) -> str:
        """Take an event; return the line of a component whose changes are complete, or nothing."""
        diagnostic = event.get("diagnosticEvent")
        if diagnostic is not None:
            text = plain(str(diagnostic.get("message", "")))
            if diagnostic.get("ephemeral") and text:
                self.status = f"{_name(str(diagnostic.get('urn', '')))}: {text}"
            return ""
        for kind in ("resourcePreEvent", "resOutputsEvent"):
            metadata = (event.get(kind) or {}).get("metadata")
            if metadata is not None:
                self._place(metadata)
                return self._finish(metadata) if kind == "resOutputsEvent" else ""
        return ""

    def rest(self) -> Iterator[str]:
        """Yield the lines of components that never ended, as in a destroy or a failed update."""
        for urn in list(self._changes):
            yield self._line(urn)

    def _place(self, metadata: dict[str, Any]) -> None:
        state = metadata.get("new") or metadata.get("old") or {}
        self._parents[str(metadata["urn"])] = str(state.get("parent") or "")

    def _finish(self, metadata: dict[str, Any]) -> str:
        urn, done = str(metadata["urn"]), _PAST.get(str(metadata["op"]))
        if _is_ours(urn):
            return self._line(urn)
        if done is None:
            return ""
        self.changed += 1
        self.status = ""
        owner = self._parents.get(urn, "")
        while owner and not _is_ours(owner):
            owner = self._parents.get(owner, "")
        counts = self._changes.setdefault(owner, {})
        counts[done] = counts.get(done, 0) + 1
        return ""

    def _line(self, urn: str) -> str:
        counts = self._changes.pop(urn, None)
        if not counts:
            return ""
        said = ", ".join(f"{count} {done}" for done, count in sorted(counts.items()))
        return f"{_label(urn)}: {said}"


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
        options = ("--event-log", str(events), "--suppress-outputs", "--suppress-progress")
        with output.open("w") as written:
            process = cli.start(*arguments, *options, output=written)
        try:
            with events.open() as file:
                _follow(process, file)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        console.print(end_of(output.read_text()), markup=False, highlight=False, soft_wrap=True)
        return process.returncode


def _follow(process: "subprocess.Popen[str]", file: TextIO) -> None:
    """Print the lines of components until the process has ended."""
    progress = Progress()
    begun = time.monotonic()
    if not console.is_terminal:
        _lines(process, file, progress, lambda: None)
        return
    with console.status("Deploying") as shown:

        def show() -> None:
            seconds = time.monotonic() - begun
            parts = [f"{progress.changed} resources changed, {seconds:.0f} s", progress.status]
            shown.update("; ".join(filter(None, parts)))

        _lines(process, file, progress, show)


def _lines(
    process: "subprocess.Popen[str]", file: TextIO, progress: Progress, show: Callable[[], None]
) -> None:
    half = ""
    is_running = True
    while is_running:
        is_running = process.poll() is None
        *whole, half = (half + file.read()).split("\n")
        for line in map(progress.take, map(json.loads, filter(None, whole))):
            _print(line)
        show()
        if is_running:
            time.sleep(_POLL_SECONDS)
    for line in progress.rest():
        _print(line)


def _print(line: str) -> None:
    if line:
        console.print(f"  {line}", markup=False, soft_wrap=True)


def end_of(output: str) -> str:
    """Return the output of an update from its diagnostics on, or all of it if it has none."""
    lines = output.splitlines()
    ends = (at for at, line in enumerate(lines) if plain(line) in _SECTIONS)
    return "\n".join(lines[next(ends, 0) :]).strip("\n")


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
