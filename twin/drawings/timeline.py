"""The timeline of a twin, as lanes of bars and marks; `timeline_svg.py` draws it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Event = Mapping[str, Any]


def ordered(events: Iterable[Event]) -> list[Event]:
    """Return events oldest first; processes write them almost in this order."""
    return sorted(events, key=lambda event: event["time"])


def clock(seconds: float) -> str:
    """Return a duration as `1:02:03` or `2:03`."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@dataclass(frozen=True)
class Bar:
    """A state with a duration."""

    lane: str
    start: float
    end: float
    label: str
    kind: str
    """`creating`, `node`, `leaving`, `pending`, `ready`, `cooling`."""


@dataclass(frozen=True)
class Mark:
    """An event at one time."""

    time: float
    label: str
    kind: str


@dataclass(frozen=True)
class Drawing:
    """The content of a drawing, with times in seconds since its start."""

    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]
    lanes: tuple[str, ...]
    length: float


def lane_of(event: Event) -> str:
    """Return the lane of a node's bar: its class and rung, or its pool."""
    if event.get("compute_class"):
        machine = event.get("machine") or ""
        words = [str(event["compute_class"]), machine, str(event.get("provisioning") or "")]
        return " ".join(word for word in words if word)
    return str(event.get("pool") or event.get("machine") or "nodes")


def drawing(events: Iterable[Event]) -> Drawing:
    """Return events as lanes of bars and marks."""
    found = ordered(events)
    if not found:
        return Drawing((), (), (), 0.0)
    start, end = found[0]["time"], found[-1]["time"]
    bars = [*_node_bars(found, end), *_cooling_bars(found), *_pod_bars(found, end)]
    marks = [
        Mark(event["time"] - start, event["message"], event["kind"])
        for event in found
        if event["kind"] in {"scenario.step", "rung.stockout", "rung.quota"}
    ]
    shifted = tuple(
        Bar(bar.lane, bar.start - start, bar.end - start, bar.label, bar.kind) for bar in bars
    )
    lanes = tuple(dict.fromkeys(bar.lane for bar in shifted))
    length = max([end - start, *(bar.end for bar in shifted)])
    return Drawing(shifted, tuple(marks), lanes, length)


def _node_bars(events: Sequence[Event], end: float) -> list[Bar]:
    requested: dict[str, Event] = {}
    ready: dict[str, Event] = {}
    noticed: dict[str, float] = {}
    bars: list[Bar] = []

    def close(name: str, until: float) -> None:
        asked = requested.pop(name, None)
        up = ready.pop(name, None)
        known = asked or up
        if known is None:
            return
        lane = lane_of(known)
        if asked is not None:
            bars.append(Bar(lane, asked["time"], up["time"] if up else until, name, "creating"))
        if up is not None:
            leaves = noticed.pop(name, until)
            bars.append(Bar(lane, up["time"], leaves, name, "node"))
            if leaves < until:
                bars.append(Bar(lane, leaves, until, name, "leaving"))

    for event in events:
        name = event["subject"]
        if event["kind"] == "node.requested":
            requested[name] = event
        elif event["kind"] == "node.ready":
            ready[name] = event
        elif event["kind"] == "node.notice":
            noticed[name] = event["time"]
        elif event["kind"] == "node.removed":
            close(name, event["time"])
    for name in [*dict.fromkeys([*requested, *ready])]:
        close(name, end)
    return bars


def _cooling_bars(events: Sequence[Event]) -> list[Bar]:
    return [
        Bar(
            f"{event.get('compute_class') or ''} cool-down".strip(),
            event["time"],
            event["time"] + float(event.get("seconds") or 0.0),
            event["subject"],
            "cooling",
        )
        for event in events
        if event["kind"] == "rung.cooldown"
    ]


def _pod_bars(events: Sequence[Event], end: float) -> list[Bar]:
    pending: dict[str, float] = {}
    ready: dict[str, float] = {}
    bars: list[Bar] = []
    for event in events:
        pod, when = event["subject"], event["time"]
        if event["kind"] == "pod.pending":
            pending.setdefault(pod, when)
        elif event["kind"] == "pod.ready":
            if pod in pending:
                bars.append(Bar(workload_of(pod), pending.pop(pod), when, pod, "pending"))
            ready[pod] = when
        elif event["kind"] == "engine.stopped" and pod in ready:
            bars.append(Bar(workload_of(pod), ready.pop(pod), when, pod, "ready"))
    bars += [Bar(workload_of(pod), when, end, pod, "pending") for pod, when in pending.items()]
    bars += [Bar(workload_of(pod), when, end, pod, "ready") for pod, when in ready.items()]
    return sorted(bars, key=lambda bar: (bar.lane, bar.start))


def workload_of(pod: str) -> str:
    """Return the workload of a pod from its name: `ns/name-5d4f9-x7k2p` is `pods of name`."""
    name = pod.rpartition("/")[2]
    parts = name.split("-")
    return "pods of " + "-".join(parts[:-2] if len(parts) > 2 else parts[:1])
