"""`gke-inference trace`: the spans of one request on the twin, as a waterfall."""  # noqa: A005 - the name of the subcommand

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from scripts.terminal.console import CommandError, console
from scripts.terminal.output_files import check_output, write_output
from scripts.terminal.tables import Column, Listing, figure, print_table
from twin.cluster import lifecycle as clusters
from twin.cluster.base.traces import spans_file
from twin.host.paths import TwinPaths

_WIDTH, _NARROW = 48, 10  # widths of the widest bar, with enough room and without
_TITLES = ("SPAN", "SERVICE", "MS")
Span = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """One span of a waterfall."""

    depth: int
    span: Span
    begins: float
    """Start of the span as a share of the trace, 0 to 1."""
    lasts: float
    """Duration of the span as a share of the trace, 0 to 1."""

    @property
    def milliseconds(self) -> float:
        """Duration of the span."""
        return (self.span["end"] - self.span["start"]) / 1e6


def read_spans(paths: TwinPaths) -> list[Span]:
    """Return every span of the twin's collectors, in the order of arrival."""
    found: list[Span] = []
    for folder in clusters.folders(paths):
        file = spans_file(folder)
        if file.exists():
            found += [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    return found


def chosen(spans: list[Span], asked: str) -> list[Span]:
    """Return the spans of one trace: `last`, or the only one with an ID prefix.

    Raises:
        CommandError: No trace matches, or more than one.
    """
    if not spans:
        raise CommandError(
            "the twin has no traces: set 'monitoring: {traces: {sample_percent: 100}}' in the"
            " stack, run make up, and ask a model"
        )
    if asked == "last":
        asked = max(spans, key=lambda span: span["start"])["trace"]
    ids = sorted({span["trace"] for span in spans if span["trace"].startswith(asked)})
    if len(ids) != 1:
        raise CommandError(
            f"ID: must be last or the prefix of one trace ID, got {asked!r}, which fits {len(ids)}"
        )
    return [span for span in spans if span["trace"] == ids[0]]


def waterfall(spans: list[Span]) -> list[Line]:
    """Return the spans of a trace as a tree: children follow their parent in order of start."""
    first = min(span["start"] for span in spans)
    whole = max(1, max(span["end"] for span in spans) - first)
    known = {span["id"] for span in spans}
    lines: list[Line] = []

    def add(span: Span, depth: int) -> None:
        share = (span["end"] - span["start"]) / whole
        lines.append(Line(depth, span, (span["start"] - first) / whole, share))
        under = [one for one in spans if one["parent"] == span["id"]]
        for child in sorted(under, key=lambda one: one["start"]):
            add(child, depth + 1)

    roots = [span for span in spans if span["parent"] not in known]
    for root in sorted(roots, key=lambda one: one["start"]):
        add(root, 0)
    return lines


def shown_name(span: Span) -> str:
    """Return the name to show; Envoy names its calls after the protocol instead of the callee."""
    name = str(span["name"])
    called = span["attributes"].get("upstream_cluster")
    return f"call of {called}" if name.startswith("async ") and called else name


def _bar(line: Line, width: int) -> str:
    left = min(round(line.begins * width), width - 1)
    return " " * left + "█" * max(1, round(line.lasts * width))


def _table(lines: list[Line], room: int) -> Listing:
    """Return the waterfall; its bars fill the remaining width."""
    rows = [
        ("  " * line.depth + shown_name(line.span), str(line.span["service"]),
         f"{line.milliseconds:.1f}")
        for line in lines
    ]  # fmt: skip
    taken = sum(2 + max(map(len, column)) for column in zip(_TITLES, *rows, strict=True))
    width = max(_NARROW, min(_WIDTH, room - taken))
    name, service, ms = _TITLES
    table = Listing(
        Column(name, folds=False), Column(service, folds=False), figure(ms),
        Column("", folds=False),
    )  # fmt: skip
    for row, line in zip(rows, lines, strict=True):
        table.add_row(*row, _bar(line, width))
    return table


def trace(
    asked: Annotated[
        str,
        typer.Argument(metavar="ID", help="ID or ID prefix of a trace; last: the latest trace."),
    ] = "last",
    svg: Annotated[
        Path | None, typer.Option(help="Also write the waterfall to this SVG file.")
    ] = None,
) -> None:
    """Show how long one request spent in the gateway, the picker and the engine of the twin."""
    check_output("--svg", svg)
    paths = TwinPaths.default()
    if not clusters.folders(paths):
        raise CommandError("the twin has no cluster, so no traces; start it with make up")
    lines = waterfall(chosen(read_spans(paths), asked))
    console.print(f"trace {lines[0].span['trace']}")
    print_table(_table(lines, console.width))
    if svg is not None:
        write_output("--svg", svg, lambda file: draw(paths, lines, file))
        console.print(f"wrote {svg}")


def draw(paths: TwinPaths, lines: list[Line], file: Path) -> None:
    """Write a waterfall to an SVG file."""
    os.environ.setdefault("MPLCONFIGDIR", str(paths.root / "matplotlib"))  # not in the user's home
    from twin.drawings.waterfall_svg import Bar, save  # noqa: PLC0415 - loads the plotting library

    first = min(line.span["start"] for line in lines)
    bars = [
        Bar(
            shown_name(line.span),
            line.span["service"],
            line.depth,
            (line.span["start"] - first) / 1e6,
            line.milliseconds,
        )
        for line in lines
    ]
    save(bars, file, f"trace {lines[0].span['trace']}")
