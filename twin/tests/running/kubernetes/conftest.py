"""A real control plane, and the provider as the engine sees it: over gRPC."""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest

from twin.cluster.base.context import ClusterContext, ClusterSpec
from twin.cluster.controlplane.blocks import hold_free_block
from twin.cluster.controlplane.endpoints import ServiceEndpoints
from twin.cluster.controlplane.processes import ControlPlane
from twin.host.keep_running import keep_running
from twin.host.paths import TwinPaths
from twin.host.pki import make_twin_pki
from twin.providers.kubernetes.server import serve
from twin.pulumi.warm_hosts import WarmHosts
from twin.tests.tools import needed
from twin.toolchain import tool
from twin.wire import rpc
from twin.wire.kube import Kube

REPOSITORY = Path(__file__).resolve().parents[4]
pb: Any = rpc.provider_pb2


class Plane:
    """One API server with its controllers, and how to reach it."""

    def __init__(self, kubeconfig: Path, authority: Path) -> None:
        self.kubeconfig = kubeconfig.read_text()
        self.kube = Kube(kubeconfig)
        self.authority = authority
        """Certificates that the server's own is signed by."""

    def namespace(self) -> str:
        """Make a namespace of its own for a test."""
        name = f"test-{uuid.uuid4().hex[:8]}"
        self.kube.post(
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
        )
        end = time.monotonic() + 20
        while time.monotonic() < end:  # pods need its default service account
            if self.kube.list(f"/api/v1/namespaces/{name}/serviceaccounts"):
                return name
            time.sleep(0.1)
        raise AssertionError("the namespace got no service account")


class Client:
    """One provider instance, as the engine drives it: one connection, configured once."""

    def __init__(self, port: int, **config: Any) -> None:
        self._channel = grpc.insecure_channel(
            f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]
        )
        self._kept: dict[str, dict[str, Any]] = {}
        """Outputs by URN, as the engine's state keeps them."""
        self.stub = rpc.provider_grpc.ResourceProviderStub(self._channel)
        self.stub.Configure(pb.ConfigureRequest(args=rpc.to_struct(config)))

    def close(self) -> None:
        self._channel.close()

    @staticmethod
    def urn(obj: dict[str, Any]) -> str:
        group, _, version = obj["apiVersion"].rpartition("/")
        token = f"kubernetes:{group or 'core'}/{version}:{obj['kind']}"
        return f"urn:pulumi:test::twin::{token}::{obj['metadata'].get('name', 'unnamed')}"

    def create(self, obj: dict[str, Any], *, timeout: float = 30, preview: bool = False) -> Any:
        """Return (id, outputs)."""
        request = pb.CreateRequest(
            urn=self.urn(obj), properties=rpc.to_struct(obj), timeout=timeout, preview=preview
        )
        answer = self.stub.Create(request, timeout=60)
        outputs = rpc.plain(answer.properties)
        if not preview:
            self._kept[self.urn(obj)] = outputs
        return answer.id, outputs

    def update(
        self,
        obj: dict[str, Any],
        *,
        ignore: tuple[str, ...] = (),
        timeout: float = 30,
        preview: bool = False,
    ) -> dict[str, Any]:
        request = pb.UpdateRequest(
            id="unused",
            urn=self.urn(obj),
            olds=rpc.to_struct(self._kept.get(self.urn(obj), {})),
            news=rpc.to_struct(obj),
            ignoreChanges=ignore,
            timeout=timeout,
            preview=preview,
        )
        outputs = rpc.plain(self.stub.Update(request, timeout=60).properties)
        if not preview:
            self._kept[self.urn(obj)] = outputs
        return outputs

    def read(self, identity: str, obj: dict[str, Any], *, known: bool = True) -> Any:
        """Return (id, outputs, inputs) as a refresh does, or as an import where not `known`."""
        request = pb.ReadRequest(
            id=identity,
            urn=self.urn(obj),
            inputs=rpc.to_struct(obj if known else {}),
            properties=rpc.to_struct(self._kept.get(self.urn(obj), {}) if known else {}),
        )
        answer = self.stub.Read(request, timeout=30)
        return answer.id, rpc.plain(answer.properties), rpc.plain(answer.inputs)

    def delete(self, identity: str, obj: dict[str, Any], *, timeout: float = 30) -> None:
        request = pb.DeleteRequest(
            id=identity, urn=self.urn(obj), properties=rpc.to_struct(obj), timeout=timeout
        )
        self.stub.Delete(request, timeout=60)

    def cancel(self) -> None:
        self.stub.Cancel(rpc.empty_pb2.Empty())


@pytest.fixture(scope="package")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plane]:
    needed("kube-apiserver")
    paths = TwinPaths(tmp_path_factory.mktemp("plane"))
    paths.create()
    make_twin_pki(paths)
    block, guard = hold_free_block(os.getpid())
    folder = paths.cluster("here", "test")
    ClusterSpec("p", "here", "test", ("here-a",), False, "1.36", "uid").save(folder)
    control = ControlPlane(paths, folder, block, "1.36.3-gke.1")
    stop = threading.Event()
    try:
        control.start()
        endpoints = ServiceEndpoints(ClusterContext(paths, folder))
        arguments = ("endpoints", endpoints.run, stop)
        threading.Thread(target=keep_running, args=arguments, daemon=True).start()
        yield Plane(control.kubeconfig, paths.ca_bundle)
    finally:
        stop.set()
        control.stop()
        guard.close()


@pytest.fixture(scope="package")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    server, port = serve(TwinPaths(tmp_path_factory.mktemp("provider")))
    yield port
    server.stop(None)


@pytest.fixture
def connect(port: int) -> Iterator[Callable[..., Client]]:
    """Open provider instances with the given configuration."""
    opened: list[Client] = []

    def open_one(**config: Any) -> Client:
        opened.append(Client(port, **config))
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()


@pytest.fixture
def client(plane: Plane, connect: Callable[..., Client]) -> Client:
    return connect(kubeconfig=plane.kubeconfig)


@pytest.fixture
def namespace(plane: Plane) -> Iterator[str]:
    name = plane.namespace()
    yield name
    plane.kube.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def node(plane: Plane) -> Iterator[str]:
    """A machine that KWOK pretends to be."""
    name = f"node-{uuid.uuid4().hex[:8]}"
    size = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    plane.kube.post(
        "/api/v1/nodes",
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {"kubernetes.io/hostname": name},
            },
            "status": {"capacity": size, "allocatable": size},
        },
    )
    end = time.monotonic() + 20
    while plane.kube.get(f"/api/v1/nodes/{name}")["spec"].get("taints"):
        assert time.monotonic() < end, "the node did not become ready"
        time.sleep(0.1)
    yield name
    plane.kube.delete(f"/api/v1/nodes/{name}")


class Stack:
    """A Pulumi program in a folder, run by the real engine against the provider."""

    def __init__(self, folder: Path, port: int, hosts: WarmHosts) -> None:
        self.folder = folder
        self._hosts = hosts
        binaries = folder / "bin"
        binaries.mkdir(parents=True)
        (folder / "state").mkdir()
        host = binaries / "pulumi-language-python"
        host.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m twin.pulumi.language_host \"$@\"\n")
        host.chmod(0o755)
        python = Path(sys.executable).parent
        # under this name, programs run in the host itself, which has the SDKs loaded
        (folder / "Pulumi.yaml").write_text("name: gke-inference\nruntime: python\n")
        self.environment = {
            **os.environ,
            "PATH": f"{binaries}:{tool('pulumi').parent}:{python}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPOSITORY),
            "PULUMI_BACKEND_URL": f"file://{folder / 'state'}",
            "PULUMI_CONFIG_PASSPHRASE": "",
            "PULUMI_DEBUG_PROVIDERS": f"kubernetes:{port}",
            "PULUMI_HOME": str(folder / "home"),
            "PULUMI_SKIP_UPDATE_CHECK": "1",
            "VIRTUAL_ENV": "",
        }
        self.run("stack", "init", "test")

    def write(self, program: str) -> None:
        (self.folder / "__main__.py").write_text(program)

    def run(self, *arguments: str, check: bool = True) -> str:
        """Return what `pulumi ARGUMENTS` printed."""
        if arguments[0] not in ("preview", "up"):
            return self._run(arguments, self.environment, check)
        with self._hosts.host({**self.environment, "PYTHONPATH": ""}) as port:
            attached = {"PULUMI_DEBUG_LANGUAGES": f"python:{port}"}
            return self._run(arguments, {**self.environment, **attached}, check)

    def _run(self, arguments: Sequence[str], environment: Mapping[str, str], check: bool) -> str:
        done = subprocess.run(
            ["pulumi", *arguments, "--non-interactive", "--color", "never"],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        output = done.stdout + done.stderr
        assert not check or done.returncode == 0, output
        return output

    def outputs(self) -> dict[str, Any]:
        text = self.run("stack", "output", "--json")
        return json.loads(text[text.index("{") : text.rindex("}") + 1])


@pytest.fixture(scope="package")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmHosts]:
    """Language hosts that have the SDKs loaded."""
    with closing(WarmHosts(tmp_path_factory.mktemp("hosts"), os.environ)) as found:
        yield found


@pytest.fixture
def stack(tmp_path: Path, port: int, hosts: WarmHosts) -> Iterator[Stack]:
    made = Stack(tmp_path / "stack", port, hosts)
    yield made
    shutil.rmtree(tmp_path / "stack", ignore_errors=True)
