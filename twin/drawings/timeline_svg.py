"""Timelines as SVG: client responses, then a lane for each workload, rung and cooldown."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from twin.drawings import svg
from twin.drawings.timeline import Bar, Drawing, Event, clock, drawing, ordered, workload_of

_COLOURS = {
    "answered": "#7cb5a4",
    "refused": "#c03028",
    "pending": "#e8b0a0",
    "ready": "#5a9e5a",
    "creating": "#c7d7ea",
    "node": "#4878a8",
    "leaving": "#e0a030",
    "cooling": "#b48cc0",
}
_WORDS = {
    "answered": "answered",
    "refused": "refused",
    "pending": "pod waits or starts",
    "ready": "pod serves",
    "creating": "node is made",
    "node": "node",
    "leaving": "node must go",
    "cooling": "rung is not tried",
}
_REFUSAL = "#c03028"
_STEP = "#202020"
CLIENT = "client"
"""Lane with the responses to a client that sends requests continuously."""
_ROW_INCHES = 0.42
_WIDTH_INCHES = 11
_WRITTEN_SHARE = 0.09  # a bar shorter than this part of the drawing has no room for words


def rows_of(found: Drawing) -> dict[str, list[list[Bar]]]:
    """Return each lane's bars in the fewest rows without overlap; a subject stays in its row."""
    lanes: dict[str, list[list[Bar]]] = {lane: [] for lane in found.lanes}
    for lane, rows in lanes.items():
        subjects: dict[str, list[Bar]] = {}
        for bar in sorted((b for b in found.bars if b.lane == lane), key=lambda b: b.start):
            subjects.setdefault(bar.label, []).append(bar)
        for bars in subjects.values():
            row = next((row for row in rows if row[-1].end <= bars[0].start), None)
            if row is None:
                rows.append(bars)
            else:
                row.extend(bars)
    return lanes


def with_what_was_there(events: Iterable[Event]) -> list[Event]:
    """Return events oldest first, preceded by the nodes and pods that existed before them.

    Only the end of these is known: a node is removed, an engine stops.
    """
    found = ordered(events)
    begun: set[str] = set()
    there: dict[str, dict[str, Any]] = {}
    for event in found:
        subject, kind = event["subject"], event["kind"]
        if kind in {"node.requested", "node.ready", "pod.pending", "pod.ready"}:
            begun.add(subject)
        elif kind in {"node.notice", "node.removed"} and subject not in begun:
            there[subject] = {**there.get(subject, {}), **event, "kind": "node.ready"}
        elif kind == "engine.stopped" and subject not in begun:
            there[subject] = {**event, "kind": "pod.ready"}
            begun.add(subject)
    start = found[0]["time"] if found else 0.0
    bought = _provisioning(found)
    opening: list[Event] = [
        {**bought.get((event.get("compute_class"), event.get("machine")), {}), **event}
        | {"time": start}
        for event in there.values()
    ]
    return [*opening, *found]


def _provisioning(events: Sequence[Event]) -> dict[tuple[Any, Any], dict[str, str]]:
    """Return the provisioning model of a class's nodes of a machine type, if there is only one."""
    seen: dict[tuple[Any, Any], set[str]] = {}
    for event in events:
        if event.get("provisioning"):
            key = (event.get("compute_class"), event.get("machine"))
            seen.setdefault(key, set()).add(str(event["provisioning"]))
    return {key: {"provisioning": ways.pop()} for key, ways in seen.items() if len(ways) == 1}


def client_bars(events: Sequence[Event]) -> list[Bar]:
    """Return a client's responses as bars between changes, with times since the first event.

    Replicas of one workload that alternate are one bar.
    """
    notes = [event for event in events if event["kind"].startswith("answer.")]
    if not notes:
        return []
    start, end = events[0]["time"], events[-1]["time"]
    bars: list[Bar] = []
    following = [*(note["time"] for note in notes[1:]), max(end, notes[-1]["time"])]
    for note, until in zip(notes, following, strict=True):
        is_answer = note["kind"] == "answer.ok"
        who = workload_of(note["subject"]).removeprefix("pods of ") if is_answer else "refused"
        kind = "answered" if is_answer else "refused"
        if bars and bars[-1].label == who:
            bars[-1] = Bar(CLIENT, bars[-1].start, until - start, who, kind)
        else:
            bars.append(Bar(CLIENT, note["time"] - start, until - start, who, kind))
    return bars


def _arranged(found: Drawing, client: Sequence[Bar]) -> Drawing:
    """Return the drawing: the client on top, then pods, nodes and cooldowns."""

    def place(lane: str) -> tuple[int, str]:
        if lane.startswith("pods of "):
            return 1, lane
        return (3 if lane.endswith("cool-down") else 2), lane

    lanes = [*([CLIENT] if client else []), *sorted(found.lanes, key=place)]
    length = max([found.length, *(bar.end for bar in client)])
    return Drawing((*client, *found.bars), found.marks, tuple(lanes), length)


def save(events: Iterable[Event], speed: float, file: Path, title: str = "Timeline") -> None:
    """Draw events into an SVG file.

    Args:
        events: events from `Events.read`.
        speed: speed of the twin's clock relative to Google's, which is printed.
        file: output file.
        title: title above the drawing.
    """
    pyplot = svg.pyplot()
    told = with_what_was_there(events)
    found = _arranged(drawing(told), client_bars(told))
    lanes = _with_client_in_one_row(rows_of(found))
    height = sum(max(1, len(rows)) for rows in lanes.values())
    size = (_WIDTH_INCHES, 2.2 + _ROW_INCHES * max(height, 3))
    figure, axes = pyplot.subplots(figsize=size, layout="constrained")
    tops = _draw_lanes(axes, lanes, found.length)
    ticks = [(top + max(1, len(lanes[lane])) / 2, lane) for lane, top in tops.items()]
    axes.set_yticks([at for at, _ in ticks], [name for _, name in ticks], fontsize=8)
    axes.set_ylim(height + 0.1, -1.0)
    axes.set_xlim(0, max(found.length, 1.0))
    _draw_marks(axes, found, tops, height)
    _axes_texts(axes, speed, title)
    _legend(figure, found)
    svg.write(pyplot, figure, file)


def _with_client_in_one_row(lanes: dict[str, list[list[Bar]]]) -> dict[str, list[list[Bar]]]:
    if CLIENT in lanes:
        bars = [bar for row in lanes[CLIENT] for bar in row]
        lanes[CLIENT] = [sorted(bars, key=lambda bar: bar.start)]
    return lanes


def _draw_lanes(axes: Any, lanes: Mapping[str, list[list[Bar]]], length: float) -> dict[str, int]:
    """Draw every bar; return the first row of each lane."""
    tops: dict[str, int] = {}
    top = 0
    for lane, rows in lanes.items():
        tops[lane] = top
        for number, bar in ((number, bar) for number, row in enumerate(rows) for bar in row):
            wide = bar.end - bar.start
            axes.barh(
                top + number + 0.5,
                max(wide, 0.01),
                left=bar.start,
                height=0.7,
                color=_COLOURS[bar.kind],
                edgecolor="none",
            )
            if lane == CLIENT and wide > _WRITTEN_SHARE * length:
                place = (bar.start + wide / 2, top + number + 0.5)
                axes.text(*place, bar.label, fontsize=7, ha="center", va="center")
        top += max(1, len(rows))
    return tops


def _draw_marks(axes: Any, found: Drawing, tops: Mapping[str, int], height: int) -> None:
    steps = [mark for mark in found.marks if mark.kind == "scenario.step"]
    for number, mark in enumerate(steps):
        axes.axvline(mark.time, color=_STEP, linewidth=1)
        late = mark.time > 0.8 * found.length
        axes.annotate(
            mark.label,
            (mark.time, -0.65 + 0.4 * (number % 2)),
            xytext=(-4 if late else 4, 0),
            textcoords="offset points",
            fontsize=7,
            ha="right" if late else "left",
            va="center",
        )
    cooling = [top for lane, top in tops.items() if lane.endswith("cool-down")]
    row = cooling[0] + 0.5 if len(cooling) == 1 else height
    for mark in found.marks:
        if mark.kind != "scenario.step":
            axes.plot(mark.time, row, marker="x", color=_REFUSAL, clip_on=False, zorder=5)


def _axes_texts(axes: Any, speed: float, title: str) -> None:
    twin_axis: Any = axes.secondary_xaxis("top")
    ticks = axes.get_xticks()
    left, right = axes.get_xlim()
    shown = [tick for tick in ticks if left <= tick <= right]
    twin_axis.set_xticks(shown, [clock(tick * speed) for tick in shown], fontsize=7)
    twin_axis.set_xlabel(f"on Google's clock ({speed:g} times the wall's)", fontsize=8)
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel("seconds on the wall", fontsize=8)
    axes.set_title(title, fontsize=10)


def _legend(figure: Any, found: Drawing) -> None:
    """Add a legend for the colors in the drawing, and for the cross if there is one."""
    used = {bar.kind for bar in found.bars}
    patch: Any = importlib.import_module("matplotlib.patches").Patch
    line: Any = importlib.import_module("matplotlib.lines").Line2D
    handles = [
        patch(color=colour, label=_WORDS[kind]) for kind, colour in _COLOURS.items() if kind in used
    ]
    if any(mark.kind != "scenario.step" for mark in found.marks):
        cross = {"marker": "x", "color": _REFUSAL, "linestyle": "none"}
        handles.append(line([], [], label="no capacity or no quota", **cross))
    if handles:
        figure.legend(
            handles=handles, loc="outside lower center", fontsize=7, ncol=5, frameon=False
        )
