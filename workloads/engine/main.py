"""Lifecycle of the launcher: detect the hardware, wait for weights, serve, drain, end.

Exit codes: the engine's own if it ends by itself; 0 after a graceful shutdown; 137 if the engine
had to be killed; 1 if its program is missing, or if the container must restart to see its devices;
2 if the spec or an option is invalid, or not for the hardware of this node.
"""

import argparse
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from . import (
    caches,
    commands,
    hardware,
    health,
    interfaces,
    node,
    secret_values,
    vllm,
    weights,
)
from .drain import Group, open_requests, wait_idle
from .log import say
from .process import Engine, reap
from .spec import Serving, Spec, SpecError, read

_SPOT_SPARE_SECONDS = 3.0
_SPOT_SECONDS = node.SPOT_POD_SECONDS - node.HOOK_SECONDS - _SPOT_SPARE_SECONDS
_POLL_SECONDS = 0.5
_REAP_SECONDS = 30.0
_LOOK_SECONDS = 5.0
_ALONE_SECONDS = 30.0
_DRIVER_SECONDS = 60.0


class Launcher:
    """One server, from its start to its end.

    Args:
        spec: Serving spec.
        asked: Kind of hardware that the pod is for; None: any.
        may_sleep: Whether hardware may be absent, as for one of two containers of a pod.
        address: Address of the engine and of the launcher.
        command: Command of the engine from the pod; empty: the spec's command.
        peers: Ports of the other launchers of the pod.
        settle_seconds: Replaces the value of the spec.
    """

    def __init__(
        self,
        spec: Spec,
        asked: "str | None",
        *,
        may_sleep: bool,
        address: str,
        command: Sequence[str] = (),
        peers: Sequence[int] = (),
        settle_seconds: "float | None" = None,
    ) -> None:
        self._spec = spec
        self._command = list(command)
        self._asked = asked
        self._may_sleep = may_sleep
        self._address = address
        self._peers = tuple(peers)
        self._url = f"http://{address}"
        self._changed = threading.Event()
        self._stop = threading.Event()
        self._signals = 0
        self._settle = spec.settle_seconds if settle_seconds is None else settle_seconds
        self._engine: Engine | None = None
        self._port = next(iter(spec.serving.values())).port
        self.state = health.State(self._engine_answers, self._others_serve, spec.start_seconds)

    def on_signal(self) -> None:
        """Record a signal; the second one ends the engine without waiting for its requests."""
        self._signals += 1
        self._stop.set()
        self._changed.set()

    def run(self) -> int:
        """Serve until a signal arrives or the engine ends; return the exit code."""
        serving = self._choose()
        if serving is None:
            return self._sleep()
        if self._may_sleep and not self.state.facts["devices"]:
            return self._await_driver()
        self._port = serving.port
        self.state.enter("weights")
        found = weights.wait(serving, self.state, self._stop)
        if found is None or self._stop.is_set():
            say("INFO", "asked to end before the engine started")
            return 0
        return self._serve(found)

    def _choose(self) -> "Serving | None":
        """Return the serving configuration for the hardware of this node, or None to sleep.

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
        """Sleep while another container of the pod serves, and check periodically that it does.

        A container does not see devices that appear after its start. It therefore ends when its
        hardware appears, or when no other container serves, and detects devices after its restart.
        """
        self.state.enter("asleep", f"no {self._asked} here: asleep, another container serves")
        alone_since: float | None = None
        while not self._paused(_LOOK_SECONDS):
            if hardware.find().kind == self._asked:
                return self._again(f"{self._asked} is here by now")
            if self._others_serve():
                alone_since = None
            elif alone_since is not None or self._others() == {"asleep"}:
                # a peer that is ending for the same reason does not count as serving
                alone_since = alone_since or time.monotonic()
                if time.monotonic() - alone_since >= _ALONE_SECONDS:
                    return self._again("every container of the pod is asleep")
        return 0

    def become(self) -> None:
        """Wait for the weights, then replace this process with the engine, which has no API."""
        serving = self._choose()
        found = None if serving is None else weights.wait(serving, self.state, self._stop)
        if found is None:
            return
        command = found.words(self._command)
        command += vllm.rank(found.serving, os.environ)
        os.execvpe(command[0], command, _environment(found.serving))  # noqa: S606 - the pod's

    def _await_driver(self) -> int:
        """Wait for the driver of a labeled node, then end, so that a restart sees the devices."""
        say("INFO", f"the node has a {self._asked}, and no device of it yet")
        deadline = time.monotonic() + _DRIVER_SECONDS
        while time.monotonic() < deadline:
            if self._paused(_LOOK_SECONDS):
                return 0
            if hardware.has_driver():
                break
        return self._again(f"this container sees no device of the node's {self._asked}")

    def _again(self, why: str) -> int:
        self.state.enter("broken", f"{why}: the container has to be started again")
        return 1

    def _paused(self, seconds: float) -> bool:
        """Wait; return whether a signal arrived."""
        return self._stop.wait(seconds)

    def _others_serve(self) -> bool:
        """Return whether another launcher of the pod serves or will serve; true without peers."""
        return not self._peers or bool(self._others() - {None, "asleep", "broken"})

    def _others(self) -> "set[str | None]":
        return {health.peer_stage(self._address, port) for port in self._peers}

    def _serve(self, found: weights.Weights) -> int:
        serving = found.serving
        self.state.facts |= {
            "engine": serving.engine,
            "model": self._spec.model,
            "version": found.manifest.version,
        }
        command = self._agreed(found)
        caches.fetch(serving)
        kept = caches.entries(serving)
        self.state.enter("load", f"starting {serving.engine}", command=command)
        try:
            engine = Engine(command, _environment(serving), self._heard(serving), self._wake)
        except OSError as error:
            self.state.enter("broken", f"engine: {command[0]} cannot be started: {error}")
            return 1
        self._engine = engine
        weights.read_ahead(found, self._stop)
        threading.Thread(
            target=caches.limit_folders, args=(serving, self._stop), daemon=True
        ).start()
        if not self._start(engine):
            return self._crashed(engine)
        if not self._stop.is_set():
            self.state.enter("serving", "", **_kept(kept, caches.entries(serving)))
            threading.Thread(target=caches.keep, args=(serving, kept), daemon=True).start()
        group = self._group_of(serving)
        threading.Thread(target=group.follow, args=(self.state, self._stop), daemon=True).start()
        while engine.code is None and not self._stop.is_set():
            self._changed.wait(_REAP_SECONDS)
            self._changed.clear()
            reap(engine.pid)
        if engine.code is not None:
            return self._crashed(engine)
        return self._end(engine, group)

    def _group_of(self, serving: Serving) -> Group:
        page = f":{self._spec.metrics_port or serving.port}{self._spec.metrics_path}"
        hosts = vllm.group_hosts(serving, os.environ)
        return Group(hosts, page, self._spec.busy_metrics, self._spec.health_port)

    def _agreed(self, found: weights.Weights) -> "list[str]":
        """Return the command of the pod, or of the spec; log a difference."""
        made = commands.command(found.serving, os.environ)
        given = found.words(self._command)
        if given and given != made:
            other = [word for word in given if word not in made]
            say("WARNING", "the pod's command is not the spec's; the pod's is taken", other=other)
        return (given or made) + vllm.rank(found.serving, os.environ)

    def _start(self, engine: Engine) -> bool:
        """Wait for the first successful response; return False if the engine ends first."""
        while engine.code is None and not self._stop.is_set():
            if self._engine_answers():
                return True
            self._changed.wait(_POLL_SECONDS)
        return engine.code is None

    def _end(self, engine: Engine, group: Group) -> int:
        """Let open requests finish, then end the engine."""
        had_served = self.state.stage in {"serving", "draining"}
        settle = self._settle + group.settle_seconds
        limit = self._settle + self._spec.longest_request_seconds
        here = node.read(hardware.root())
        if here is not None and here.is_preempted:
            settle, limit = 0.0, min(limit, _SPOT_SECONDS)
            say("WARNING", f"the node is preempted: {limit:.0f} s for what is open")
        self.state.enter("draining", f"asked to end: at most {limit:.0f} s for what is open")
        if had_served:
            self._drain(engine, group, settle, limit)
        engine.send(signal.SIGTERM)
        return self._ended(engine)

    def _drain(self, engine: Engine, group: Group, settle: float, limit: float) -> None:
        """Wait until no request of the group is open; at least `settle`, at most `limit`."""
        port = self._spec.metrics_port or self._port
        url = f"{self._url}:{port}{self._spec.metrics_path}"

        def left() -> "float | None":
            own = open_requests(url, self._spec.busy_metrics)
            return own if own != 0 else group.open_requests()

        def pause(longest: float) -> None:
            self._changed.clear()
            self._changed.wait(min(_POLL_SECONDS, longest))

        wait_idle(left, lambda: engine.code is not None or self._signals > 1, pause, settle, limit)
        self.state.facts["drained"] = True

    def _ended(self, engine: Engine) -> int:
        """Wait for an engine that is terminating; kill it if it does not end in time."""
        deadline = time.monotonic() + self._spec.stop_seconds
        while engine.code is None and time.monotonic() < deadline:
            self._changed.wait(_POLL_SECONDS)
            self._changed.clear()
        if engine.code is None:
            say("WARNING", f"killed: not ended within {self._spec.stop_seconds} s of SIGTERM")
            engine.kill()
            return 128 + signal.SIGKILL
        code = engine.code
        engine.kill()  # remaining processes
        # Ended by the signal, or with an exit code for it: as requested.
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
    """Advances the stage by the engine's log lines while it starts."""

    def __init__(self, engine: str, state: health.State) -> None:
        self._engine = engine
        self._state = state

    def __call__(self, line: str) -> None:
        if not self._state.is_starting:
            return
        stage = health.stage_of(self._engine, line)
        if stage is not None:
            self._state.enter(stage)


def _environment(serving: Serving) -> "dict[str, str]":
    made = {**commands.environment(serving), **caches.environment(serving)}
    found = made | interfaces.environment(serving) | os.environ
    return found | secret_values.read(serving.secrets)


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
            peers=options.peer_port,
            settle_seconds=options.settle_seconds,
        )
        if options.worker:
            launcher.become()
            return 0
        _listen(launcher)
        port = options.health_port or spec.health_port
        health.serve(launcher.state, address, port)
        return launcher.run()
    except (OSError, SpecError) as error:
        say("ERROR", str(error))
        return 2


def _listen(launcher: Launcher) -> None:
    """Forward SIGTERM and SIGINT to a launcher from a thread.

    A signal handler would interrupt the main thread, where it must not wait for a lock.
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
    """Handle a signal, so that its number is written to the wake-up descriptor."""


def _options(argv: "Sequence[str] | None") -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="engine", description=__doc__)
    parser.add_argument("--spec", required=True, help="JSON file with what to serve")
    parser.add_argument("--hardware", choices=("cpu", "gpu", "tpu"), help="kind that must be here")
    parser.add_argument("--or-sleep", action="store_true", help="sleep where it is not here")
    parser.add_argument("--health-port", type=int, help="port of /healthz, /readyz and /stage")
    parser.add_argument("--worker", action="store_true", help="start an engine without an API")
    parser.add_argument(
        "--peer-port", type=int, action="append", default=[], help="of another launcher of the pod"
    )
    parser.add_argument("--settle-seconds", type=float, help="instead of the spec's")
    parser.add_argument("--show", action="store_true", help="print the engine's command, end")
    parser.add_argument("command", nargs="*", help="the engine's command, behind --")
    return parser.parse_args(argv)


def _show(spec: Spec, kind: "str | None") -> int:
    """Print the command that would be started, one word per line."""
    serving = spec.serving.get(kind or hardware.find().kind)
    if serving is None:
        raise SpecError(f"spec.serving: must have {kind}, got {', '.join(sorted(spec.serving))}")
    print("\n".join(commands.command(serving, {})))  # noqa: T201 - that is what is asked for
    return 0
