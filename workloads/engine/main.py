"""The launcher's life: find the hardware, wait for weights, serve, drain, end.

Exit codes: the engine's own where it ends by itself; 0 after a signal that was followed to the end;
137 where the engine had to be killed; 1 where weights or the program are missing; 2 for a spec or
an option that is wrong, or not for the hardware that is here.
"""

import argparse
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from . import caches, commands, hardware, health, metadata, stages, tgi, weights
from .drain import open_requests
from .log import say
from .process import Engine, expand, reap
from .spec import Serving, Spec, SpecError, read

_SPOT_SPARE_SECONDS = 3.0
_POLL_SECONDS = 0.5
_REAP_SECONDS = 30.0
_NOTICE_SECONDS = 1.0
_SILENT_TIMES = 3  # a metadata server may be late once


class Launcher:
    """One server, from its start to its end.

    Args:
        spec: what to serve.
        asked: kind of hardware that the pod is for; None: whatever is here.
        may_sleep: whether absent hardware is right, as for one of two containers of a pod.
        address: where the engine answers and the launcher listens.
        command: of the engine, where the pod says it; empty: what the spec says.
        may_wait: whether weights are waited for.
        settle_seconds: instead of the spec's.
    """

    def __init__(
        self,
        spec: Spec,
        asked: "str | None",
        *,
        may_sleep: bool,
        address: str,
        command: Sequence[str] = (),
        may_wait: bool = True,
        settle_seconds: "float | None" = None,
    ) -> None:
        self._spec = spec
        self._command = list(command)
        self._may_wait = may_wait
        self._asked = asked
        self._may_sleep = may_sleep
        self._url = f"http://{address}"
        self._changed = threading.Event()
        self._stop = threading.Event()
        self._signals = 0
        self._settle = spec.settle_seconds if settle_seconds is None else settle_seconds
        self._noticed: float | None = None
        self._engine: Engine | None = None
        self._port = next(iter(spec.serving.values())).port
        self.state = health.State(answers=self._engine_answers)

    def on_signal(self) -> None:
        """Note a signal; the second one ends the engine without waiting for its requests."""
        self._signals += 1
        self._stop.set()
        self._changed.set()

    def run(self) -> int:
        """Serve until a signal or the engine's end; return the exit code."""
        try:
            serving = self._choose()
            if serving is None:
                return self._sleep()
            self._port = serving.port
            self.state.enter("weights")
            if self._may_wait:
                weights.wait(serving, self._spec.weights_wait_seconds, self._stop)
            if self._stop.is_set():
                say("INFO", "asked to end before the engine started")
                return 0
            return self._serve(serving)
        except weights.WeightsError as error:
            self.state.enter("broken", str(error))
            return 1

    def _choose(self) -> "Serving | None":
        """Return what to serve on the hardware that is here, or None to sleep.

        Raises:
            SpecError: Neither is possible.
        """
        found = hardware.find()
        wanted = self._asked or found.kind
        self.state.facts |= {"hardware": found.kind, "devices": found.devices}
        say(
            "INFO",
            f"hardware: {found.kind}, {found.how}",
            hardware=found.kind,
            devices=found.devices,
            **hardware.variables(),
        )
        if found.kind != wanted:
            if self._may_sleep:
                return None
            message = f"hardware: must be {wanted}, as this container is for it"
            raise SpecError(f"{message}, got {found.kind} ({found.how})")
        if wanted not in self._spec.serving:
            known = ", ".join(sorted(self._spec.serving))
            raise SpecError(f"spec.serving: must have {wanted}, which is here, got {known}")
        return self._spec.serving[wanted]

    def _sleep(self) -> int:
        """Hold nothing and wait for the end; the other container of the pod serves."""
        self.state.enter("asleep", f"no {self._asked} here: asleep, another container serves")
        while not self._stop.is_set():
            self._changed.wait()
        return 0

    def _serve(self, serving: Serving) -> int:
        self.state.facts |= {"engine": serving.engine, "model": self._spec.model}
        command = self._agreed(serving)
        kept = caches.entries(serving)
        self.state.enter("load", f"starting {serving.engine}", command=command)
        try:
            engine = Engine(command, _environment(serving), self._heard(serving), self._wake)
        except OSError as error:
            self.state.enter("broken", f"engine: {command[0]} cannot be started: {error}")
            return 1
        self._engine = engine
        weights.read_ahead(serving, self._stop)
        if not self._start(engine):
            return self._crashed(engine)
        if not self._stop.is_set():
            self.state.enter("serving", "", **_kept(kept, caches.entries(serving)))
            threading.Thread(target=self._look_for_notice, daemon=True).start()
        while engine.code is None and not self._stop.is_set():
            self._changed.wait(_REAP_SECONDS)
            self._changed.clear()
            reap(engine.pid)
        if engine.code is not None:
            return self._crashed(engine)
        return self._end(engine)

    def _look_for_notice(self) -> None:
        """Take no new requests from the moment this spot node has its notice.

        The signal comes only after the container's preStop hook, when most of the notice is over.
        Ends where no metadata server answers.
        """
        silent = 0
        while not self._stop.is_set() and silent < _SILENT_TIMES:
            said = metadata.preempted()
            silent = silent + 1 if said is None else 0
            if said:
                self._noticed = time.monotonic()
                self.state.enter("draining", "the node is preempted: no new requests")
                return
            self._stop.wait(_NOTICE_SECONDS)

    def _agreed(self, serving: Serving) -> "list[str]":
        """Return the command of the pod, or of the spec; say so where both differ."""
        made = [expand(word, os.environ) for word in commands.command(serving)]
        if self._command and self._command != made:
            other = [word for word in self._command if word not in made]
            say("WARNING", "the pod's command is not the spec's; the pod's is taken", other=other)
        return self._command or made

    def _start(self, engine: Engine) -> bool:
        """Wait for the first good answer; False where the engine ended before it."""
        while engine.code is None and not self._stop.is_set():
            if self._engine_answers():
                return True
            self._changed.wait(_POLL_SECONDS)
        return engine.code is None

    def _end(self, engine: Engine) -> int:
        """Let open requests finish, then end the engine."""
        had_served = self.state.stage in {"serving", "draining"}
        settle, limit = self._settle, self._settle + self._spec.longest_request_seconds
        if metadata.preempted():
            settle, limit = 0.0, min(limit, self._left_of_notice())
            say("WARNING", f"the node is preempted: {limit:.0f} s for what is open")
        self.state.enter("draining", f"asked to end: at most {limit:.0f} s for what is open")
        if had_served:
            self._drain(engine, settle, limit)
        engine.send(signal.SIGTERM)
        return self._ended(engine)

    def _left_of_notice(self) -> float:
        """Return the seconds that are left for requests on a spot node that has its notice."""
        gone = metadata.HOOK_SECONDS  # where nobody heard the notice, the hook came after it
        if self._noticed is not None:
            gone = time.monotonic() - self._noticed
        return max(1.0, metadata.SPOT_POD_SECONDS - gone - _SPOT_SPARE_SECONDS)

    def _drain(self, engine: Engine, settle: float, limit: float) -> None:
        """Wait until nothing is open: not before load balancers have let go, nor for ever."""
        began = time.monotonic()
        settled, deadline = began + settle, began + limit
        url = f"{self._url}:{self._port}{self._spec.metrics_path}"
        while engine.code is None and self._signals < 2:
            left = open_requests(url, self._spec.busy_metrics)
            now = time.monotonic()
            if (left == 0 and now >= settled) or now >= deadline:
                severity = "INFO" if left == 0 else "WARNING"
                say(severity, f"drained, {'nothing' if left == 0 else left} is open", open=left)
                return
            self._changed.clear()
            self._changed.wait(min(_POLL_SECONDS, max(0.0, deadline - time.monotonic())))

    def _ended(self, engine: Engine) -> int:
        """Wait for an engine that was told to end; kill it when it does not."""
        deadline = time.monotonic() + self._spec.stop_seconds
        while engine.code is None and time.monotonic() < deadline:
            self._changed.wait(_POLL_SECONDS)
            self._changed.clear()
        if engine.code is None:
            say("WARNING", f"killed: not ended within {self._spec.stop_seconds} s of SIGTERM")
            engine.kill()
            return 128 + signal.SIGKILL
        code = engine.code
        engine.kill()  # what it left behind
        # Ended by the signal itself, or with its own word for it: as asked.
        return 0 if code in (0, 128 + signal.SIGTERM, 128 + signal.SIGINT) else code

    def _crashed(self, engine: Engine) -> int:
        engine.join(2.0)
        code = engine.code or 0
        engine.kill()
        self.state.enter(
            "broken",
            f"engine ended by itself with exit code {code}",
            exit_code=code,
            last_lines=list(engine.last_lines),
        )
        return code or 1  # a server that ends is no success, whatever it says

    def _engine_answers(self) -> bool:
        return health.answers(f"{self._url}:{self._port}{self._spec.health_path}")

    def _heard(self, serving: Serving) -> "_Heard":
        return _Heard(serving.engine, self.state)

    def _wake(self) -> None:
        self._changed.set()


class _Heard:
    """Moves the stage on by the engine's lines, while it starts."""

    def __init__(self, engine: str, state: health.State) -> None:
        self._engine = engine
        self._state = state

    def __call__(self, line: str) -> None:
        if not self._state.is_starting:
            return
        stage = stages.stage_of(self._engine, line)
        if stage is not None:
            self._state.enter(stage)


def _environment(serving: Serving) -> "dict[str, str]":
    own = tgi.environment(serving) if serving.engine == "tgi" else {}
    return {**own, **caches.environment(serving), **os.environ}


def _kept(before: "int | None", after: "int | None") -> "dict[str, int]":
    """Return how the compile cache did: programs it had, and those that are new."""
    if before is None or after is None:
        return {}
    return {"cached_programs": before, "compiled_programs": max(0, after - before)}


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run the launcher; return the exit code."""
    options = _options(argv)
    try:
        spec = read(Path(options.spec).read_text(encoding="utf-8"))
        if not spec.serving:
            raise SpecError("spec.serving: must have at least one kind of hardware, got none")
        if options.show:
            return _show(spec, options.hardware)
        address = os.environ.get("POD_IP", "127.0.0.1")
        launcher = Launcher(
            spec,
            options.hardware,
            address=address,
            command=options.command,
            may_sleep=options.or_sleep,
            may_wait=not options.no_wait,
            settle_seconds=options.settle_seconds,
        )
        _listen(launcher)
        port = options.health_port or spec.health_port
        health.serve(launcher.state, address, port)
        return launcher.run()
    except (OSError, SpecError) as error:
        say("ERROR", str(error))
        return 2


def _listen(launcher: Launcher) -> None:
    """Tell a launcher of SIGTERM and SIGINT, from a thread.

    A handler would run inside whatever the main thread does, and may not wait for a lock there.
    """
    outlet, inlet = os.pipe()
    os.set_blocking(inlet, False)
    signal.set_wakeup_fd(inlet)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _nothing)

    def pass_on() -> None:
        while os.read(outlet, 1):
            launcher.on_signal()

    threading.Thread(target=pass_on, daemon=True).start()


def _nothing(number: int, frame: object) -> None:
    """Take a signal, so that its number is written to the wake-up descriptor."""


def _options(argv: "Sequence[str] | None") -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="engine", description=__doc__)
    parser.add_argument("--spec", required=True, help="JSON file with what to serve")
    parser.add_argument("--hardware", choices=("cpu", "gpu", "tpu"), help="kind that must be here")
    parser.add_argument("--or-sleep", action="store_true", help="sleep where it is not here")
    parser.add_argument("--health-port", type=int, help="port of /healthz, /readyz and /stage")
    parser.add_argument("--no-wait", action="store_true", help="do not wait for the weights")
    parser.add_argument("--settle-seconds", type=float, help="instead of the spec's")
    parser.add_argument("--show", action="store_true", help="print the engine's command, end")
    parser.add_argument("command", nargs="*", help="the engine's command, behind --")
    return parser.parse_args(argv)


def _show(spec: Spec, kind: "str | None") -> int:
    """Print what would be started, one word a line."""
    serving = spec.serving.get(kind or hardware.find().kind)
    if serving is None:
        raise SpecError(f"spec.serving: must have {kind}, got {', '.join(sorted(spec.serving))}")
    print("\n".join(commands.command(serving)))  # noqa: T201 - that is what is asked for
    return 0
