"""Node events that the launcher notices: a spot machine's notice, and devices that appear late."""

import json
import ssl
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.running.engine.conftest import free_port, serving
from twin.host.pki import make_authority, make_leaf
from workloads.engine.node import ACCESS

pytestmark = pytest.mark.needs_tools  # launcher and engine as processes

FIRST_TOKEN = b"data: token\n"
SPOT = {"cloud.google.com/gke-spot": "true"}
NOTICE = [{"key": "cloud.google.com/impending-node-termination", "effect": "NoSchedule"}]


class Cluster:
    """An API server that knows one Node, and lets one token get it."""

    def __init__(self, folder: Path) -> None:
        self.node: dict[str, Any] = {"metadata": {"labels": {}}, "spec": {}}
        self.labels = self.node["metadata"]["labels"]
        self.asked: list[str] = []
        self._folder = folder
        make_authority(folder, "ca")
        make_leaf(folder, "api", folder / "ca", server=True)

    def variables(self, port: int) -> dict[str, str]:
        return {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(port),
            "NODE_NAME": "n1",
        }

    def grant(self, root: Path) -> None:
        """Mount the token in a pod, as the platform's pods have it."""
        access = root / ACCESS.lstrip("/")
        access.mkdir(parents=True)
        (access / "token").write_text("secret\n")
        (access / "ca.crt").write_bytes((self._folder / "ca.crt").read_bytes())

    @contextmanager
    def serve(self) -> Generator[dict[str, str]]:
        cluster = self

        class Api(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                cluster.asked.append(self.path)
                allowed = self.headers["Authorization"] == "Bearer secret"
                self.send_response(200 if allowed else 403)
                self.end_headers()
                self.wfile.write(json.dumps(cluster.node).encode())

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Api) as server:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._folder / "api.crt", self._folder / "api.key")
            server.socket = context.wrap_socket(server.socket, server_side=True)
            threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
            yield self.variables(server.server_port)
            server.shutdown()


@pytest.fixture
def cluster(tmp_path):
    folder = tmp_path / "cluster"
    folder.mkdir()
    return Cluster(folder)


def said(server, start):
    return [line["message"] for line in server.lines if line["message"].startswith(start)]


def ended(server, limit=30):
    return server.process.wait(limit)


def test_a_spot_node_that_has_its_notice_leaves_a_server_ten_seconds_less_the_engines_end(
    launch, cluster
):
    cluster.labels |= SPOT
    with cluster.serve() as variables:
        server = launch(more=variables, prepare=cluster.grant, settle_seconds=600)
        server.until(lambda: server.get("/readyz")[0] == 200)
        with server.stream() as stream:
            assert stream.readline() == FIRST_TOKEN
            cluster.node["spec"]["taints"] = NOTICE
            assert server.end() == 0, "and does not wait for load balancers"
    assert "/api/v1/nodes/n1" in cluster.asked
    assert said(server, "the node is preempted") == ["the node is preempted: 7 s for what is open"]
    assert said(server, "asked to end") == ["asked to end: at most 7 s for what is open"]


@pytest.mark.parametrize(
    ("labels", "taints"),
    [(SPOT, []), ({}, NOTICE)],
    ids=["spot, without a notice", "maintenance of a node that is not spot"],
)
def test_a_server_has_its_whole_grace_where_its_node_is_not_preempted(
    launch, cluster, labels, taints
):
    cluster.labels |= labels
    cluster.node["spec"]["taints"] = taints
    with cluster.serve() as variables:
        server = launch(
            more=variables, prepare=cluster.grant, longest_request_seconds=480, settle_seconds=1
        )
        server.until(lambda: server.get("/readyz")[0] == 200)
        assert server.end() == 0
    assert said(server, "asked to end") == ["asked to end: at most 481 s for what is open"]


def test_a_server_that_may_not_read_its_node_has_its_whole_grace(launch, cluster):
    cluster.labels |= SPOT
    cluster.node["spec"]["taints"] = NOTICE
    with cluster.serve() as variables:
        server = launch(more=variables, longest_request_seconds=480)
        server.until(lambda: server.get("/readyz")[0] == 200)
        assert server.end() == 0
    assert said(server, "asked to end") == ["asked to end: at most 480 s for what is open"]


def test_the_container_whose_hardware_is_absent_is_ready_while_the_other_one_serves(launch):
    server = launch(
        more={"FAKE_HOLD": "hold"},
        serving={"tpu": serving("/models/m")},
    )
    port = server.spec.health_port
    other = launch("--hardware=gpu", "--or-sleep", f"--peer-port={port}")
    other.until(lambda: other.is_at("asleep"))
    other.until(lambda: other.get("/readyz")[0] == 200)  # once it has seen the other one serve
    assert other.get("/healthz")[0] == 200
    assert other.end() == 0
    assert not any(line["logger"] == "engine" for line in other.lines)


def test_nobody_is_ready_where_every_container_of_the_pod_is_asleep_and_all_start_again(launch):
    ports = free_port(), free_port()
    pair = [
        launch(
            "--hardware=gpu",
            "--or-sleep",
            f"--health-port={own}",
            f"--peer-port={other}",
            health_port=own,
        )
        for own, other in (ports, ports[::-1])
    ]
    for server in pair:
        server.until(lambda server=server: server.is_at("asleep"))
    assert [server.get("/readyz")[0] for server in pair] == [503, 503]
    assert {ended(server, 60) for server in pair} == {1}, "a new container sees new devices"
    assert said(pair[0], "every container of the pod is asleep")


def test_a_sleeper_whose_hardware_appears_starts_again(launch):
    server = launch("--hardware=gpu", "--or-sleep")
    server.until(lambda: server.is_at("asleep"))
    for chip in (server.folder / "root/dev/vfio").iterdir():
        chip.unlink()
    (server.folder / "root/dev/nvidia0").touch()
    assert ended(server) == 1
    assert said(server, "gpu is here by now")


def test_a_node_whose_driver_is_not_installed_yet_is_waited_for_and_seen_by_a_new_container(
    launch, cluster
):
    cluster.labels["cloud.google.com/gke-accelerator"] = "nvidia-l4"
    with cluster.serve() as variables:
        server = launch(
            "--hardware=gpu",
            "--or-sleep",
            more=variables,
            chips=0,
            prepare=cluster.grant,
            serving={"gpu": serving("/models/m")},
        )
        server.until(lambda: said(server, "the node has a gpu, and no device of it yet"))
        assert server.get("/readyz")[0] == 503
        tool = server.folder / "root/usr/local/nvidia/bin/nvidia-smi"
        tool.parent.mkdir(parents=True)
        tool.write_text("")
        tool.chmod(0o755)
        assert ended(server) == 1
    assert said(server, "this container sees no device of the node's gpu")
