"""Fixtures of the unit tests: a recorder that stands in for the Pulumi engine."""

import asyncio
import contextlib
import gc
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pulumi
import pytest
from pulumi.runtime import mocks, settings
from pulumi.runtime.stack import run_pulumi_func

# The SDKs are a million objects that stay. Looking through them again and again was a third of the
# time of tests that build a whole platform.
gc.set_threshold(100_000, 20, 100)


def pytest_collection_finish() -> None:
    """Leaves what the test files loaded to itself."""
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class Registration:
    """One resource a program registered."""

    type: str
    name: str
    inputs: dict[str, Any]
    provider: str
    parent: str
    """URN of the parent; it ends in `::<type>::<name>` of the component."""
    ignored: tuple[str, ...]
    """Properties whose changes are ignored."""
    protected: bool


class Recorder(mocks.Mocks):
    """Records what a program registers; refuses calls and a repeated (type, name)."""

    def __init__(self) -> None:
        self.registrations: list[Registration] = []
        self.faults: list[str] = []
        self.requests: dict[tuple[str, str], Any] = {}
        self.outputs: dict[str, dict[str, Any]] = {
            "gcp:container/cluster:Cluster": {
                "controlPlaneEndpointsConfig": {
                    "dnsEndpointConfig": {"endpoint": "gke-test.us-east5.gke.goog"}
                }
            }
        }
        """What the cloud answers beyond the inputs, by type; a test may add to it."""
        self.answers: dict[str, dict[str, Any]] = {}
        """What a planned call is answered, by its token."""

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        if any((seen.type, seen.name) == (args.typ, args.name) for seen in self.registrations):
            self.faults.append(f"two resources {args.typ} named {args.name}")
        inputs = dict(args.inputs)
        request = self.requests[args.typ, args.name]
        self.registrations.append(
            Registration(
                args.typ,
                args.name,
                inputs,
                args.provider or "",
                request.parent,
                tuple(request.ignoreChanges),
                bool(request.protect),
            )
        )
        answered = self.outputs.get(args.typ, {})
        return f"{args.name}-id", {"name": args.name, **inputs, **answered}

    def call(self, args: mocks.MockCallArgs) -> Any:
        if args.token in self.answers:
            return dict(self.answers[args.token])
        self.faults.append(f"a call of {args.token} was not planned")
        return {}

    def run(self, program: Callable[[], Any]) -> Any:
        """Runs a program to its end and returns the value of the output it returned."""
        result: list[Any] = []

        async def main() -> None:
            output = pulumi.Output.from_input(program())
            result.append(await output.future())

        runtime: Any = settings.SETTINGS
        runtime.rpc_manager.clear()
        runtime.outputs.clear()
        asyncio.get_event_loop().run_until_complete(run_pulumi_func(main))
        if self.faults:
            raise AssertionError("; ".join(self.faults))
        return result[0]

    def all(self, type_name: str) -> list[Registration]:
        """Returns the registrations of one type, in the order they were made."""
        return [seen for seen in self.registrations if seen.type == type_name]

    def named(self, name: str) -> Registration:
        """Returns the only registration of one name."""
        found = [seen for seen in self.registrations if seen.name == name]
        assert len(found) == 1, f"{name}: {[seen.name for seen in self.registrations]}"
        return found[0]

    def counts(self) -> dict[str, int]:
        """Returns how many of each type were registered, by the last part of the type."""
        return dict(Counter(seen.type.rpartition(":")[2] for seen in self.registrations))

    def one(self, type_name: str) -> Registration:
        """Returns the only registration of one type."""
        found = self.all(type_name)
        assert len(found) == 1, f"{type_name}: {[seen.name for seen in found]}"
        return found[0]


class _TidyMonitor(mocks.MockMonitor):
    """Keeps each request for the recorder.

    It also closes the event loop that the mocks leave open in each thread that registers something.
    """

    def RegisterResource(self, request: Any) -> Any:
        recorder: Any = self.mocks
        recorder.requests[request.type, request.name] = request
        try:
            return super().RegisterResource(request)
        finally:
            self._close_loop()

    def Invoke(self, request: Any) -> Any:
        try:
            return super().Invoke(request)
        finally:
            self._close_loop()

    @staticmethod
    def _close_loop() -> None:
        if threading.current_thread() is not threading.main_thread():
            with contextlib.suppress(RuntimeError):  # it has none
                asyncio.get_event_loop().close()
            asyncio.set_event_loop(None)


@pytest.fixture(scope="session")
def engine_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """One event loop for all programs: Pulumi's root resource lives in the first one it sees."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield loop
    asyncio.set_event_loop(None)
    loop.close()


@pytest.fixture
def engine(engine_loop: asyncio.AbstractEventLoop) -> Callable[[], Recorder]:
    """Makes a fresh engine stand-in each time it is called, for a test that needs two."""

    def fresh() -> Recorder:
        asyncio.set_event_loop(engine_loop)
        stand_in = Recorder()
        monitor = _TidyMonitor(stand_in)
        mocks.set_mocks(
            stand_in, project="gke-inference", stack="test", preview=False, monitor=monitor
        )
        return stand_in

    return fresh


@pytest.fixture
def recorder(engine: Callable[[], Recorder]) -> Recorder:
    """A fresh engine stand-in."""
    return engine()
