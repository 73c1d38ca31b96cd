"""The proxy through which programs of a cluster reach its Services."""

import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from twin.cluster.services.proxy import ServiceProxy, environment

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


class Objects:
    """Watches of a cluster whose objects a test writes."""

    def __init__(self, objects: dict[str, list[dict[str, Any]]]) -> None:
        self._objects = objects

    def watch(self, path: str, stop: threading.Event, _selector: str | None) -> Any:
        for number, item in enumerate(self._objects[path.rsplit("/", 1)[-1]]):
            item["metadata"]["uid"] = f"{path}/{number}"
            yield "ADDED", item
        yield "SYNCED", None
        stop.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory):
    """Run a proxy over two ready pods and one that is not."""
    folder = tmp_path_factory.mktemp("cluster")
    backends = [Backend("a"), Backend("b"), Backend("not ready")]
    pods = [pod(f"p{at}", one.port, ready=at < 2) for at, one in enumerate(backends)]
    stop = threading.Event()

    class Context:
        dir = folder
        watches = Objects({"pods": pods, "services": [SERVICE]})

    context: Any = Context()
    thread = threading.Thread(target=ServiceProxy(context).run, args=(stop,))
    thread.start()
    for _ in range(200):
        if environment(folder):
            break
        threading.Event().wait(0.02)
    yield Asking(environment(folder)["HTTP_PROXY"], backends)
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
