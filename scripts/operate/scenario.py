"""Plays a scenario on the running platform while a client sends requests."""

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from scripts.operate.load import Load, plot, print_report
from scripts.operate.timeline import print_events
from scripts.shared.clusters import of_twin
from scripts.shared.model_client import stream_chat
from scripts.shared.placements import placements, settled
from scripts.shared.scenario_files import scenario_file
from scripts.terminal.console import CommandError, console, step
from twin.drawings.timeline import Event
from twin.host.paths import TwinPaths
from twin.wire.kube import KubeError
from twin.world import scenario as scenarios
from twin.world.events import Events
from twin.world.rules import Rules

ASK_SECONDS = 0.25
"""Time that the client waits after each answer before it asks again."""
_SETTLE_SECONDS = 120
_QUIET_SECONDS = 6
_Print = Callable[[Sequence[Event], float], None]
"""Prints the results of the clients; takes the events and the start of the scenario."""


def load_scenario(name: str, paths: TwinPaths) -> scenarios.ScenarioRunner:
    """Return a loaded scenario.

    Raises:
        CommandError: The scenario does not exist, or its file is invalid.
    """
    try:
        return scenarios.ScenarioRunner(paths, scenario_file(name))
    except scenarios.ScenarioError as error:
        raise CommandError(f"--scenario: {error}") from None


class Client(threading.Thread):
    """Sends requests to one model; counts the answers, and records when the outcome changes."""

    def __init__(self, endpoint: str, model: str, events: Events) -> None:
        super().__init__(name="client", daemon=True)
        self._endpoint, self._model, self._events = endpoint, model, events
        self._stop_asking = threading.Event()
        self._last: tuple[str, str] = ("", "")
        self.answered: list[float] = []
        """Seconds until each whole answer."""
        self.refused: list[float] = []
        """Seconds until each refusal."""
        self.longest_gap_seconds = 0.0

    def run(self) -> None:
        """Send requests until `finish` is called."""
        last = time.monotonic()
        while not self._stop_asking.wait(ASK_SECONDS):
            asked = time.monotonic()
            try:
                answer = stream_chat(self._endpoint, self._model, "Are you there?", max_tokens=4)
            except CommandError as error:
                self.refused.append(time.monotonic() - asked)
                self._note("answer.refused", self._model, " ".join(str(error).split())[:120])
                continue
            now = time.monotonic()
            self.answered.append(now - asked)
            self.longest_gap_seconds = max(self.longest_gap_seconds, now - last)
            last = now
            self._note("answer.ok", answer.served_by, f"{answer.served_by} answers")

    def _note(self, kind: str, subject: str, message: str) -> None:
        if (kind, subject) != self._last:
            self._last = (kind, subject)
            self._events.emit(kind, subject, message)

    def finish(self) -> None:
        """Stop sending requests and wait for the last answer."""
        self._stop_asking.set()
        self.join(timeout=70)


def play(
    runner: scenarios.ScenarioRunner, paths: TwinPaths, endpoint: str, model: str, folder: Path
) -> None:
    """Play a scenario while a client sends requests; print the timeline and plot it.

    Raises:
        CommandError: The condition of a step was not met in time.
    """
    os.environ.setdefault(
        "MPLCONFIGDIR", str(paths.root / "matplotlib")
    )  # keep files out of the user's home
    from twin.drawings.timeline_svg import save  # noqa: PLC0415 - loads the plotting library

    with step("Waiting until the platform is idle"):
        settled(paths, _SETTLE_SECONDS, quiet=_QUIET_SECONDS)
    begun = time.time()
    console.print(f"\n[bold]{runner.scenario.name}[/bold]: {runner.scenario.description.strip()}")
    accompanied = _with_load if runner.scenario.traffic else _with_client
    finished, print_traffic = accompanied(runner, paths, endpoint, model, folder)
    happened = Events(paths.events_file).read(since=begun)
    speed = Rules.of(paths).speed
    print_events(happened, speed)
    save(happened, speed, folder / "timeline.svg", title=runner.scenario.name)
    console.print(f"Timeline {folder.parent.name}/{folder.name}/timeline.svg")
    print_traffic(happened, begun)
    if not finished:
        raise CommandError(
            f"{runner.scenario.name}: the condition of a step was not met in time; see the timeline"
        )


def _step_done(done: scenarios.Step) -> None:
    console.print(f"  → {done.title}")


def _with_client(
    runner: scenarios.ScenarioRunner, paths: TwinPaths, endpoint: str, model: str, folder: Path
) -> tuple[bool, _Print]:
    """Play the steps while one client sends requests; write its outcome to `client.json`."""
    client = Client(endpoint, model, Events(paths.events_file))
    client.start()
    try:
        finished = runner.run(_step_done)
        settled(paths, _SETTLE_SECONDS, quiet=_QUIET_SECONDS)
    finally:
        client.finish()

    def print_outcome(happened: Sequence[Event], begun: float) -> None:
        del happened, begun
        gap = client.longest_gap_seconds
        outcome = {
            "answered": len(client.answered),
            "refused": len(client.refused),
            "answer_seconds": _median(client.answered),
            "refusal_seconds": _median(client.refused),
            "gap_seconds": round(gap, 2),
        }
        (folder / "client.json").write_text(json.dumps(outcome) + "\n")
        console.print(
            f"Client: {len(client.answered)} answered, {len(client.refused)} refused; longest time "
            f"without an answer {gap:.1f} s "
            f"({gap * Rules.of(paths).speed / 60:.0f} min in real time)"
        )

    return finished, print_outcome


def _median(seconds: Sequence[float]) -> float | None:
    return round(median(seconds), 4) if seconds else None


def _replicas(paths: TwinPaths) -> str:
    """Return how many replicas are in each state on each rung."""
    try:
        found = Counter((one.state, one.rung) for one in placements(of_twin(paths)))
    except KubeError as error:
        return f"a cluster does not answer: {error.message}"
    return ", ".join(
        f"{number} {state} on {rung}" if rung else f"{number} {state}"
        for (state, rung), number in sorted(found.items())
    )


def _with_load(
    runner: scenarios.ScenarioRunner, paths: TwinPaths, endpoint: str, model: str, folder: Path
) -> tuple[bool, _Print]:
    """Play the steps while the traffic of the scenario runs."""
    traffic = runner.scenario.traffic
    if traffic is None:
        raise CommandError(f"{runner.scenario.name}: must have traffic, got none")
    load = Load(traffic, endpoint, model, Events(paths.events_file))
    load.start()
    finished = runner.run(_step_done)
    report = load.finish(lambda: _replicas(paths), console.print)
    with step("Waiting until the platform is idle again"):
        settled(paths, _SETTLE_SECONDS, quiet=_QUIET_SECONDS)

    def print_outcome(happened: Sequence[Event], begun: float) -> None:
        del happened  # events of existing nodes are older
        events = Events(paths.events_file).read()
        plot(paths, events, begun, folder / "load.svg", runner.scenario.name)
        console.print(f"Curves   {folder.parent.name}/{folder.name}/load.svg")
        print_report(report, folder)

    return finished, print_outcome
