"""A gcp provider without engine, network or processes: protos in, protos out."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from twin.host.paths import TwinPaths
from twin.providers.gcp import lifecycle
from twin.providers.gcp.effects import gcs
from twin.providers.gcp.iam import endpoint
from twin.providers.gcp.provider import Provider
from twin.providers.gcp.server import world_of
from twin.wire import rpc
from twin.wire.property_values import strip_secrets
from twin.wire.rpc import provider_pb2 as pb

PROJECT = "acme"


class Refused(Exception):
    """The provider ended a call with an error."""


class Context:
    """A gRPC call of one engine."""

    def __init__(self, peer: str = "ipv4:127.0.0.1:1") -> None:
        self._peer = peer
        self.active = True

    def peer(self) -> str:
        return self._peer

    def is_active(self) -> bool:
        return self.active

    def abort(self, code: Any, message: str) -> None:
        raise Refused(f"{code.name}: {message}")


@dataclass
class Made:
    """A resource the test created."""

    token: str
    name: str
    id: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]


class Cloud:
    """What an engine does with the provider, in short."""

    def __init__(self, paths: TwinPaths) -> None:
        self.paths = paths
        self.world = world_of(paths)
        self.provider = Provider(self.world)
        self.context = Context()
        self.configure(project=PROJECT)

    def configure(self, **settings: str) -> None:
        request = pb.ConfigureRequest(args=rpc.to_struct(settings))
        self.provider.Configure(request, self.context)

    @staticmethod
    def urn(token: str, name: str) -> str:
        return f"urn:pulumi:dev::bp::{token}::{name}"

    def check(self, token: str, name: str, inputs: dict[str, Any], olds: Any = None) -> Any:
        request = pb.CheckRequest(
            urn=self.urn(token, name), news=rpc.to_struct(inputs), olds=rpc.to_struct(olds or {})
        )
        return self.provider.Check(request, self.context)

    def failures(self, token: str, inputs: dict[str, Any]) -> dict[str, str]:
        return {item.property: item.reason for item in self.check(token, "x", inputs).failures}

    def checked(self, token: str, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
        response = self.check(token, name, inputs)
        assert not response.failures, response.failures
        return rpc.plain(response.inputs)

    def preview(self, token: str, name: str, inputs: dict[str, Any]) -> dict[str, Any]:
        request = pb.CreateRequest(
            urn=self.urn(token, name),
            properties=rpc.to_struct(self.checked(token, name, inputs)),
            preview=True,
        )
        answer = self.provider.Create(request, self.context)
        return strip_secrets(rpc.plain(answer.properties))

    def create(self, token: str, name: str, inputs: dict[str, Any]) -> Made:
        checked = self.checked(token, name, inputs)
        request = pb.CreateRequest(urn=self.urn(token, name), properties=rpc.to_struct(checked))
        answer = self.provider.Create(request, self.context)
        outputs = strip_secrets(rpc.plain(answer.properties))
        return Made(token, name, answer.id, checked, outputs)

    def diff(self, made: Made, inputs: dict[str, Any], ignore: tuple[str, ...] = ()) -> Any:
        request = pb.DiffRequest(
            id=made.id,
            urn=self.urn(made.token, made.name),
            olds=rpc.to_struct(made.outputs),
            old_inputs=rpc.to_struct(made.inputs),
            news=rpc.to_struct(self.checked(made.token, made.name, inputs)),
            ignoreChanges=ignore,
        )
        return self.provider.Diff(request, self.context)

    def update(self, made: Made, inputs: dict[str, Any], preview: bool = False) -> dict[str, Any]:
        request = pb.UpdateRequest(
            id=made.id,
            urn=self.urn(made.token, made.name),
            olds=rpc.to_struct(made.outputs),
            news=rpc.to_struct(self.checked(made.token, made.name, inputs)),
            preview=preview,
        )
        answer = self.provider.Update(request, self.context)
        made.outputs = strip_secrets(rpc.plain(answer.properties))
        return made.outputs

    def read(self, token: str, name: str, resource_id: str) -> Any:
        request = pb.ReadRequest(id=resource_id, urn=self.urn(token, name))
        return self.provider.Read(request, self.context)

    def delete(self, made: Made) -> None:
        request = pb.DeleteRequest(id=made.id, urn=self.urn(made.token, made.name))
        self.provider.Delete(request, self.context)

    def invoke(self, token: str, arguments: dict[str, Any]) -> Any:
        request = pb.InvokeRequest(tok=token, args=rpc.to_struct(arguments))
        return self.provider.Invoke(request, self.context)


class FakeStorage:
    """Buckets in memory in place of fake-gcs-server."""

    def __init__(self) -> None:
        self.buckets: dict[str, dict[str, bytes]] = {}

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def upload(_p: Any, bucket: str, name: str, body: bytes, _kind: str) -> dict[str, str]:
            self.buckets[bucket][name] = body
            return {"md5Hash": "md5"}

        replacements = {
            "create_bucket": lambda _p, name, _project: self.buckets.setdefault(name, {}),
            "has_bucket": lambda _p, name: name in self.buckets,
            "has_object": lambda _p, b, n: n in self.buckets.get(b, {}),
            "objects": lambda _p, name: iter([{"name": n} for n in self.buckets.get(name, {})]),
            "upload": upload,
            "delete_object": lambda _p, b, n: self.buckets.get(b, {}).pop(n, None),
            "delete_bucket": lambda _p, name: self.buckets.pop(name, None),
        }
        for name, replacement in replacements.items():
            monkeypatch.setattr(gcs, name, replacement)
        monkeypatch.setattr(endpoint, "start", lambda _: None)


@pytest.fixture
def storage(monkeypatch: pytest.MonkeyPatch) -> FakeStorage:
    fake = FakeStorage()
    fake.install(monkeypatch)
    return fake


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """Requested clusters, instead of control planes."""
    from twin.cluster import lifecycle as module  # noqa: PLC0415 - not needed by other tests

    made: list[Any] = []

    def create(spec: Any, paths: TwinPaths, progress: Any) -> Any:
        progress("starting")
        made.append(spec)
        folder = paths.cluster(spec.location, spec.name)
        folder.mkdir(parents=True, exist_ok=True)
        return SimpleNamespace(endpoint="127.0.0.1:6443", ca_pem="PEM", folder=folder)

    monkeypatch.setattr(module, "create", create)
    monkeypatch.setattr(module, "delete", lambda *_: made.clear())
    return made


def without_waits(folder: Path) -> TwinPaths:
    """Return the paths of a twin in which Google's operations take no time."""
    found = TwinPaths(folder)
    found.create()
    found.settings_file.write_text(json.dumps({"speed": 1e9}))
    return found


@pytest.fixture
def paths(tmp_path: Path) -> TwinPaths:
    return without_waits(tmp_path / "twin")


@pytest.fixture
def cloud(paths: TwinPaths, storage: FakeStorage) -> Cloud:
    return Cloud(paths)


@pytest.fixture
def later(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the cloud at 100 times real speed, some seconds after a resource was created."""

    def at(made: Made, seconds: float) -> Cloud:
        cloud.paths.settings_file.write_text(json.dumps({"speed": 100}))
        record = cloud.world.store.get(made.token, made.id)
        assert record is not None
        clock = {"time": lambda: record.created + seconds}
        clock |= {"monotonic": time.monotonic, "sleep": time.sleep}
        monkeypatch.setattr(lifecycle, "time", SimpleNamespace(**clock))
        return Cloud(cloud.paths)

    return at
