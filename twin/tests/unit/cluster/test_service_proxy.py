"""The proxy through which programs of a cluster reach its Services."""

import base64
import copy
import json
import socket
import threading
import urllib.error
import urllib.parse
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from twin.cluster.base.context import ClusterSpec
from twin.cluster.services import tunnel
from twin.cluster.services.proxy import ServiceProxy, environment
from twin.host.paths import TwinPaths
from twin.world.store import Store, new_record

SERVICE = {
    "metadata": {"name": "engine", "namespace": "models"},
    "spec": {
        "clusterIP": "10.96.0.9",
        "ports": [{"port": 80, "targetPort": "http"}],
        "selector": {"app": "engine"},
    },
}


class Backend(ThreadingHTTPServer):
    """A pod's program; says who it is, and what it was asked."""

    def __init__(self, name: str) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"])).decode()
                asked = {"body": body, "host": self.headers["host"], "path": self.path}
                content = json.dumps({"name": name, **asked}).encode()
                self.send_response(201)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
                """Write nothing."""

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def port(self) -> int:
        return self.server_address[1]


def pod(name: str, port: int, *, ready: bool = True) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "engine"}, "name": name, "namespace": "models"},
        "spec": {"containers": [{"ports": [{"containerPort": port, "name": "http"}]}]},
        "status": {
            "conditions": [{"status": str(ready), "type": "Ready"}],
            "podIP": "127.0.0.1",
        },
    }


CALLER = {
    "metadata": {"labels": {"app": "gate"}, "name": "gate-0", "namespace": "models"},
    "spec": {"containers": []},
    "status": {"podIP": "127.64.0.2"},
}


class Objects:
    """Watches of a cluster whose objects a test writes."""

    def __init__(self, objects: dict[str, list[dict[str, Any]]]) -> None:
        self._objects = objects

    def watch(self, path: str, stop: threading.Event, _selector: str | None) -> Any:
        for number, item in enumerate(self._objects.get(path.rsplit("/", 1)[-1], [])):
            item["metadata"]["uid"] = f"{path}/{number}"
            yield "ADDED", item
        yield "SYNCED", None
        stop.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory):
    """Run a proxy over two ready pods and one that is not, with NetworkPolicies."""
    folder = tmp_path_factory.mktemp("cluster")
    store = Store(TwinPaths(folder).cloud_db)
    inputs = {"datapathProvider": "ADVANCED_DATAPATH"}
    name = "projects/p/locations/us-central1/clusters/main"
    store.add(new_record("gcp:container/cluster:Cluster", name, "main", "p", "", inputs, {}), [])
    closed = {
        "metadata": {"name": "closed", "namespace": "models"},
        "spec": {
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "worker"}}}]}],
            "podSelector": {"matchLabels": {"app": "engine"}},
        },
    }
    worker = copy.deepcopy(CALLER)
    worker["metadata"] |= {"labels": {"app": "worker"}, "name": "worker-0"}
    backends = [Backend("a"), Backend("b"), Backend("not ready")]
    pods = [pod(f"p{at}", one.port, ready=at < 2) for at, one in enumerate(backends)]
    stop = threading.Event()

    class Context:
        dir = folder
        paths = TwinPaths(folder)
        spec = ClusterSpec("p", "us-central1", "main", (), False, "1", "u")
        watches = Objects(
            {
                "networkpolicies": [closed],
                "pods": [*pods, CALLER, worker],
                "services": [SERVICE],
            }
        )

    context: Any = Context()
    thread = threading.Thread(target=ServiceProxy(context).run, args=(stop,))
    thread.start()
    for _ in range(200):
        if environment(folder) and tunnel.environment(folder, worker):
            break
        threading.Event().wait(0.02)
    asking = Asking(environment(folder)["HTTP_PROXY"], backends)
    asking.tunnels = {
        str(each["metadata"]["name"]): tunnel.environment(folder, each)["HTTPS_PROXY"]
        for each in (CALLER, worker)
    }
    asking.as_pods = {
        str(each["metadata"]["name"]): Asking(environment(folder, each)["HTTP_PROXY"], backends)
        for each in (CALLER, worker)
    }
    yield asking
    stop.set()
    thread.join(5)
    for one in backends:
        one.shutdown()
        one.server_close()


class Asking:
    """A program that asks through the proxy."""

    def __init__(self, proxy: str, backends: list[Backend]) -> None:
        handler = urllib.request.ProxyHandler({"http": proxy})
        self._opener = urllib.request.build_opener(handler)
        self.backends = backends
        self.as_pods: dict[str, Asking] = {}
        self.tunnels: dict[str, str] = {}

    def connect(self, name: str, target: str) -> tuple[str, str]:
        """Ask a Service through the tunnel of a pod; return the reply of the tunnel, and the
        pod's program that answered."""
        proxy = urllib.parse.urlsplit(self.tunnels[name])
        login = base64.b64encode(f"{proxy.username}:{proxy.password}".encode()).decode()
        asked = "POST /x HTTP/1.1\r\nhost: engine\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        with socket.create_connection((proxy.hostname, proxy.port), timeout=5) as link:
            head = f"CONNECT {target} HTTP/1.1\r\nProxy-Authorization: Basic {login}\r\n\r\n"
            link.sendall(head.encode())
            reply = link.recv(4096).decode()
            if " 200 " not in reply:
                return reply.replace("\r\n", " ").strip(), ""
            link.sendall(asked.encode())
            answer = b"".join(iter(lambda: link.recv(4096), b""))
        return reply.split("\r\n")[0], json.loads(answer.partition(b"\r\n\r\n")[2])["name"]

    def post(self, url: str) -> tuple[int, Any]:
        try:
            asked = urllib.request.Request(url, b"hello")  # noqa: S310 - our own
            with self._opener.open(asked, timeout=5) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode().strip()


def test_a_service_is_asked_by_its_name_at_its_ready_pods_in_turn(cluster):
    answers = [cluster.post("http://engine.models.svc/v1/embeddings?x=1") for _ in range(4)]
    assert [status for status, _ in answers] == [201] * 4
    assert sorted(found["name"] for _, found in answers) == ["a", "a", "b", "b"]
    _, found = answers[0]
    assert (found["body"], found["path"]) == ("hello", "/v1/embeddings?x=1")
    assert found["host"] == "engine.models.svc"


@pytest.mark.parametrize(
    ("host", "message"),
    [
        ("other.models.svc", "no Service models/other"),
        ("engine.models.svc:81", "Service models/engine:81 has no ready pod"),
        ("example.com", "host must be NAME.NAMESPACE.svc, got 'example.com'"),
    ],
)
def test_what_is_not_there_is_a_bad_gateway_that_says_what_is_missing(cluster, host, message):
    assert cluster.post(f"http://{host}/") == (502, message)


def test_an_address_of_loopback_is_asked_as_it_is(cluster):
    status, found = cluster.post(f"http://127.0.0.1:{cluster.backends[2].port}/x")
    assert (status, found["name"]) == (201, "not ready")


def test_what_network_policies_drop_between_two_pods_fails(cluster):
    url = "http://engine.models.svc/x"
    port = cluster.backends[0].port, cluster.backends[1].port
    status, said = cluster.as_pods["gate-0"].post(url)
    assert (status, said.partition(": ")[2]) == (
        504,
        "no NetworkPolicy of the receiver's namespace lets it in",
    )
    assert said in [
        f"models/gate-0 to port {each} of models/p{at}: no NetworkPolicy of the receiver's "
        "namespace lets it in"
        for at, each in enumerate(port)
    ]
    assert cluster.as_pods["worker-0"].post(url)[0] == 201


def test_a_tunnel_connects_a_pod_to_a_service_that_policies_let_it_reach(cluster):
    said, name = cluster.connect("worker-0", "engine.models.svc:80")
    assert (said, name in "ab") == ("HTTP/1.1 200 Connection Established", True)
    refused, _ = cluster.connect("gate-0", "engine.models.svc:80")
    assert refused.startswith("HTTP/1.1 502 Bad Gateway  models/gate-0 to port")
    assert "502 Bad Gateway  no Service models/x" in cluster.connect("gate-0", "x.models.svc:80")[0]


@pytest.mark.parametrize("head", ["", "GET / HTTP/1.1", "CONNECT engine"])
def test_a_tunnel_refuses_and_ends_what_is_no_request_for_one(cluster, head):
    proxy = urllib.parse.urlsplit(cluster.tunnels["worker-0"])
    with socket.create_connection((proxy.hostname, proxy.port), timeout=5) as link:
        link.sendall(f"{head}\r\n\r\n".encode())
        answer = b"".join(iter(lambda: link.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 405 ")
