"""The traffic of a scenario: sends, counts and plots it."""

import dataclasses
import json
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from scripts.shared.hosts import host_of
from scripts.shared.model_client import headers_with, key_of
from scripts.terminal.console import CommandError, console
from simulator.traffic import Options, Report, Trace, TraceEntry, mixed_lengths, run
from simulator.traffic.client import LOCAL_CLIENTS
from twin.cluster import lifecycle as clusters
from twin.cluster.monitoring import promql
from twin.cluster.monitoring.server import address_of
from twin.drawings.curves_svg import Curve, Panel, save
from twin.drawings.timeline import Event, lane_of, ordered
from twin.host.paths import TwinPaths
from twin.world.events import Events
from twin.world.nearness import CLIENT_REGION
from twin.world.rules import Rules
from twin.world.scenario import Traffic

_SEED = 20261121
_STEP_SECONDS = 1.0
_LOOK_SECONDS = 1.0


def trace_of(traffic: Traffic, model: str, key: str | None = None) -> Trace:
    """Return the requests of a scenario, which are the same in each run.

    Args:
        traffic: Traffic of the scenario.
        model: Model to ask.
        key: Key of a client; None without `clients`.
    """
    return Trace.merge("scenario", _asks(traffic, model, key))


def _asks(traffic: Traffic, model: str, key: str | None) -> Iterator[TraceEntry]:
    own = headers_with(key)
    choose = random.Random(_SEED)  # noqa: S311 - traffic, not secrets
    start = 0.0
    for number, stage in enumerate(traffic.stages):
        found = mixed_lengths(
            rate=stage.rate,
            seconds=stage.seconds,
            seed=_SEED + number,
            model=model,
            prompts=[(1.0, traffic.prompt_tokens, traffic.prompt_tokens)],
            outputs=[(1.0, traffic.output_tokens, traffic.output_tokens)],
            start=start,
        )
        for at, ask in enumerate(found):
            clients = traffic.clients
            client = clients[at % len(clients)] if clients else ""
            yield dataclasses.replace(
                ask,
                headers={**own, CLIENT_REGION: client} if client else own,
                stream=choose.random() < traffic.streamed_share,
                group=client,
            )
        start += stage.seconds


class Load(threading.Thread):
    """Sends the traffic of a scenario; `report` is set once all of it has ended."""

    def __init__(self, traffic: Traffic, endpoint: str, model: str, events: Events) -> None:
        super().__init__(name="load", daemon=True)
        self._stages = traffic.stages
        self._events = events
        self._trace = trace_of(traffic, model, key_of(model))
        self._endpoint = endpoint
        self.report: Report | None = None

    def run(self) -> None:
        """Send each request on time, and record rate changes on the timeline."""
        threading.Thread(target=self._announce, name="load-stages", daemon=True).start()
        known = host_of(self._endpoint)
        options = Options(sources=LOCAL_CLIENTS)
        if known is not None:
            options = dataclasses.replace(options, address=known.address, tls=known.context())
        self.report = run(self._trace, self._endpoint, options)

    def _announce(self) -> None:
        for stage in self._stages:
            self._events.emit("scenario.step", "load", f"{stage.rate:g} requests a second")
            time.sleep(stage.seconds)

    def finish(self, look: Callable[[], str], say: Callable[[str], None]) -> Report:
        """Wait for the last answer and return the outcome of every request.

        Args:
            look: Function that returns the state of the replicas in one line.
            say: Function that takes a line with time and state, whenever the state changed.

        Raises:
            CommandError: The client failed.
        """
        begun, before = time.monotonic(), ""
        whole = sum(stage.seconds for stage in self._stages)
        while self.is_alive():
            now = look()
            if now != before:
                before, passed = now, min(time.monotonic() - begun, whole)
                say(f"  {passed:3.0f} of {whole:.0f} s: {now}")
            self.join(timeout=_LOOK_SECONDS)
        if self.report is None:
            raise CommandError("the load generator failed; see above")
        return self.report


def print_report(report: Report, folder: Path) -> None:
    """Print the outcome of the traffic; write it to `traffic.json` and `requests.jsonl`.

    `requests.jsonl` has a line for each request, whose `group` is the region of the client.

    Raises:
        CommandError: A request was lost: neither answered nor refused.
    """
    summary = report.summary()
    times = summary.ttft_ms
    first = (
        "no first tokens: no response was streamed"
        if times is None
        else f"first token p95 {times.p95:.0f} ms"
    )
    console.print(
        f"Traffic: {summary.sent} sent, {summary.answered} answered, {summary.refused} refused, "
        f"{summary.lost} lost; {first}"
    )
    for pod, answers in sorted(report.replicas().items()):
        console.print(f"  {answers:5d} by {pod or 'an unnamed replica'}")
    (folder / "traffic.json").write_text(json.dumps(summary.as_dict(), indent=1) + "\n")
    with (folder / "requests.jsonl").open("w") as stream:
        stream.writelines(f"{json.dumps(dataclasses.asdict(r))}\n" for r in report.records)
    if report.lost:
        first = report.lost[0]
        text = f"{summary.lost} requests lost, the first: {first.error} {first.detail}"
        raise CommandError(text.strip())


def plot(paths: TwinPaths, events: Sequence[Event], begun: float, file: Path, title: str) -> None:
    """Plot the events since `begun` as curves, and write these to a JSON file beside the drawing.

    Args:
        paths: Paths of the twin.
        events: All events of the twin.
        begun: Start of the curves, in seconds since 1970.
        file: SVG file to write.
        title: Title of the plot.

    Raises:
        CommandError: A Prometheus does not answer.
    """
    try:
        found = panels(paths, events, begun, time.time())
    except promql.QueryError as error:
        raise CommandError(f"the curves cannot be plotted: {error}") from error
    marks = [
        (event["time"] - begun, str(event["message"]))
        for event in events
        if event["kind"] == "scenario.step" and event["time"] >= begun
    ]
    save(found, marks, file, title)
    curves = {
        "panels": {
            panel.title: {curve.label: curve.points for curve in panel.curves} for panel in found
        },
        "marks": marks,
        "speed": Rules.of(paths).speed,
    }
    file.with_suffix(".json").write_text(json.dumps(curves) + "\n")


def panels(paths: TwinPaths, events: Sequence[Event], begun: float, ended: float) -> list[Panel]:
    """Return the curves of requests, replicas and nodes of each rung."""

    def asked(expression: str, label: str) -> list[Curve]:
        found: list[Curve] = []
        for folder in clusters.folders(paths):
            address = address_of(folder)
            series = (
                promql.query_range(address, expression, begun, ended, _STEP_SECONDS)
                if address
                else []
            )
            for one in series:
                points = tuple((at - begun, value) for at, value in one.points)
                found.append(Curve(one.labels.get(label, label), points))
        return found

    scaled = "kube_horizontalpodautoscaler_status_desired_replicas"
    ready = "kube_deployment_status_replicas_available"
    name = 'label_replace({}, "deployment", "$1", "horizontalpodautoscaler", "(.+)")'
    wanted = name.format(scaled)
    replicas = asked(f"{ready} and on (namespace, deployment) {wanted}", "deployment")
    return [
        Panel(
            "requests",
            (
                *asked("sum(vllm:num_requests_running)", "in the batch"),
                *asked("sum(vllm:num_requests_waiting)", "in the queue"),
            ),
        ),
        Panel(
            "replicas",
            (
                *(dataclasses.replace(one, label=f"{one.label} ready") for one in replicas),
                *(
                    dataclasses.replace(one, label=f"{one.label} wanted", dashed=True)
                    for one in asked(wanted, "deployment")
                ),
            ),
        ),
        Panel("nodes", node_curves(events, begun, ended)),
    ]


def node_curves(events: Sequence[Event], begun: float, ended: float) -> tuple[Curve, ...]:
    """Return the number of nodes of each rung over time, including earlier nodes.

    Args:
        events: All events of the twin.
        begun: Start of the curves, in seconds since 1970.
        ended: End of the curves, in seconds since 1970.
    """
    lanes: dict[str, str] = {}
    points: dict[str, list[tuple[float, float]]] = {}
    for event in ordered(events):
        name, at = str(event["subject"]), max(0.0, event["time"] - begun)
        if event["kind"] == "node.ready" and name not in lanes:
            lane, change = lane_of(event), 1
            lanes[name] = lane
        elif event["kind"] == "node.removed" and name in lanes:
            lane, change = lanes.pop(name), -1
        else:
            continue
        steps = points.setdefault(lane, [(0.0, 0.0)])
        steps.append((at, steps[-1][1] + change))
    return tuple(
        Curve(lane, (*steps, (ended - begun, steps[-1][1])))
        for lane, steps in points.items()
        if steps[-1][1] or steps[-1][0] > 0
    )
