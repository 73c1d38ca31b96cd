"""A stand-in for the Pulumi engine that records what a program registers."""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar
from unittest import mock

import pulumi
from google.protobuf import struct_pb2
from pulumi.runtime import mocks, resource, rpc, settings
from pulumi.runtime.proto import resource_pb2 as untyped_resource_pb2
from pulumi.runtime.stack import run_pulumi_func

resource_pb2: Any = untyped_resource_pb2  # generated code without types
STACK = "pulumi:pulumi:Stack"


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
    dependencies: frozenset[str]
    """URNs of the resources that must exist before it and are deleted after it."""


class Records:
    """The resources that a program registered, in the order they were made."""

    def __init__(self) -> None:
        self.registrations: list[Registration] = []

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

    def object(self, type_name: str, name: str) -> dict[str, Any]:
        """Returns the only Kubernetes object of a type and a name."""
        names = [seen.inputs["metadata"]["name"] for seen in self.all(type_name)]
        assert names.count(name) == 1, f"{name}: {names}"
        return self.objects(type_name)[name]

    def objects(self, type_name: str) -> dict[str, dict[str, Any]]:
        """Returns the Kubernetes objects of a type, by name."""
        return {seen.inputs["metadata"]["name"]: seen.inputs for seen in self.all(type_name)}

    def by_type(self) -> dict[str, list[dict[str, Any]]]:
        """Returns the inputs of all registrations by the last word of their type."""
        found: dict[str, list[dict[str, Any]]] = {}
        for seen in self.registrations:
            found.setdefault(seen.type.rpartition(":")[2], []).append(seen.inputs)
        return found

    def one(self, type_name: str) -> Registration:
        """Returns the only registration of one type."""
        found = self.all(type_name)
        assert len(found) == 1, f"{type_name}: {[seen.name for seen in found]}"
        return found[0]


class Recorder(Records, mocks.Mocks):
    """Records what a program registers; refuses calls and a repeated (type, name)."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self._names: set[tuple[str, str]] = set()
        self.requests: dict[tuple[str, str], Any] = {}
        store = {"connectionType": "CONNECTION_TYPE_PRIMARY", "ipAddress": "10.0.0.9", "port": 6379}
        self.outputs: dict[str, dict[str, Any]] = {
            "gcp:memorystore/instance:Instance": {
                "endpoints": [{"connections": [{"pscAutoConnection": store}]}],
                "managedServerCas": [{"caCerts": [{"certificates": ["PEM of the store\n"]}]}],
            },
            "gcp:container/cluster:Cluster": {
                "controlPlaneEndpointsConfig": {
                    "dnsEndpointConfig": {"endpoint": "gke-test.us-east5.gke.goog"}
                }
            },
        }
        """What the cloud answers beyond the inputs, by type; a test may add to it."""
        self.answers: dict[str, dict[str, Any]] = {}
        """What a planned call is answered, by its token."""

    def registered(self, request: Any) -> None:
        """Keeps what the engine was asked to register."""
        key = (request.type, request.name)
        if key in self._names:
            self.faults.append(f"two resources {request.type} named {request.name}")
        self._names.add(key)
        self.requests[key] = request

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        inputs = dict(args.inputs)
        request = self.requests[args.typ, args.name]
        if self.is_read(args):
            return str(args.resource_id), {"name": args.name, **inputs}
        self.registrations.append(
            Registration(
                args.typ,
                args.name,
                inputs,
                args.provider or "",
                request.parent,
                tuple(getattr(request, "ignoreChanges", ())),
                bool(getattr(request, "protect", False)),
                frozenset(request.dependencies),
            )
        )
        answered = self.outputs.get(args.typ, {})
        return f"{args.name}-id", {"name": args.name, **inputs, **answered}

    def is_read(self, args: mocks.MockResourceArgs) -> bool:
        """Returns whether an object of a cluster is only read: the program does not make it."""
        request = self.requests[args.typ, args.name]
        is_object = args.typ.startswith("kubernetes:")
        return is_object and isinstance(request, resource_pb2.ReadResourceRequest)

    def call(self, args: mocks.MockCallArgs) -> Any:
        if args.token in self.answers:
            return dict(self.answers[args.token])
        self.faults.append(f"a call of {args.token} was not planned")
        return {}

    def run(self, program: Callable[[], Any], *, preview: bool = False) -> Any:
        """Runs a program to its end and returns the value of the output it returned.

        The loop is that of the last recorder that was installed.

        Args:
            program: Registers resources.
            preview: Whether the program is told that this is a preview.
        """
        _put_in_place(self, preview=preview)  # another recorder may have run since
        self._names.clear()
        result: list[Any] = []

        async def main() -> None:
            output = pulumi.Output.from_input(program())
            result.append(await output.future())

        runtime: Any = settings.SETTINGS
        root: Any = settings.get_root_resource()
        root._transformations = None  # of the program before
        runtime.rpc_manager.clear()
        runtime.outputs.clear()
        with _no_positions():
            asyncio.get_event_loop().run_until_complete(run_pulumi_func(main))
        if self.faults:
            raise AssertionError("; ".join(self.faults))
        return result[0]


def _no_positions() -> AbstractContextManager[Any]:
    """Leave out where in the source each resource is made: nobody asks, and it takes time."""
    return mock.patch.multiple(
        resource, _get_stack_trace=lambda: None, _get_source_position=lambda _: None
    )


R = TypeVar("R", bound=Recorder)


def install(recorder: R, loop: asyncio.AbstractEventLoop) -> R:
    """Puts a recorder in the place of the engine, for programs that run in a loop."""
    asyncio.set_event_loop(loop)
    _put_in_place(recorder, preview=False)
    return recorder


def _put_in_place(recorder: Recorder, *, preview: bool) -> None:
    mocks.set_mocks(
        recorder,
        project="gke-inference",
        stack="test",
        preview=preview,
        monitor=_Monitor(recorder),
    )


def event_loop() -> asyncio.AbstractEventLoop:
    """Returns a loop in which a call of the engine is answered at once.

    The SDK gives each call to a thread, as a real engine lets it wait; a recorder never does.
    """
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_AtOnce(max_workers=1))
    loop.set_task_factory(_unlisted_once_done)
    return loop


def _unlisted_once_done(
    loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
) -> asyncio.Task[Any]:
    """Return a task that leaves asyncio's list of all tasks when it is done.

    Outputs keep their tasks. With those of a few hundred stacks, each later `asyncio.run` would
    look through a hundred thousand of them.
    """
    task = asyncio.Task(coroutine, loop=loop, **options)
    tasks: Any = asyncio.tasks
    task.add_done_callback(tasks._unregister_task)
    return task


_P = ParamSpec("_P")
_T = TypeVar("_T")


class _AtOnce(ThreadPoolExecutor):
    """Does what it is given before it returns."""

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        future: Future[_T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - it is raised where the result is awaited
            future.set_exception(error)
        return future


@dataclass(frozen=True)
class _Registered:
    """A `RegisterResourceResponse` with values that the SDK does not have to read again."""

    urn: str
    id: str
    object: dict[str, Any]
    propertyDependencies: None = None
    result: int = resource_pb2.Result.SUCCESS
    unknown: bool = False


class _Monitor(mocks.MockMonitor):
    """Answers with what it was sent, and what the cloud adds.

    The SDK's own serializes each answer again, as if the program had not just done so, and the
    program reads it back.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._recorder = recorder

    def RegisterResource(self, request: Any) -> Any:
        if request.type == STACK:
            return super().RegisterResource(request)
        self._recorder.registered(request)
        inputs = rpc.deserialize_properties(request.object)
        identity, state = self._recorder.new_resource(
            mocks.MockResourceArgs(
                typ=request.type,
                name=request.name,
                inputs=inputs,
                provider=request.provider,
                resource_id=request.importId,
                custom=request.custom,
            )
        )
        urn = self.make_urn(request.parent, request.type, request.name)
        self.resources[urn] = mocks.MockMonitor.ResourceRegistration(urn, identity, state)
        added = struct_pb2.Struct()
        added.update({key: to for key, to in state.items() if inputs.get(key) is not to})
        return _Registered(urn, identity, inputs | rpc.deserialize_properties(added))

    def ReadResource(self, request: Any) -> Any:
        self._recorder.registered(request)
        return super().ReadResource(request)

    def Invoke(self, request: Any) -> Any:
        args = rpc.deserialize_properties(request.args)
        found = self._recorder.call(
            mocks.MockCallArgs(token=request.tok, args=args, provider=request.provider)
        )
        answer = struct_pb2.Struct()
        answer.update(found)
        return resource_pb2.ResourceInvokeResponse(**{"return": answer})
