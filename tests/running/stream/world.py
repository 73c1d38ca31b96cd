"""A stream: Pub/Sub or Kafka as processes, a model that can be told what to answer, workers."""

import base64
import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.running.programs import LIMIT, OF_STREAMS, Program, until
from twin.host.ports import free_port, free_ports, listens
from twin.toolchain import tool

P = "projects/acme"
IN, SUBSCRIPTION = f"{P}/topics/in", f"{P}/subscriptions/in"
OUT, LETTERS = f"{P}/topics/out", f"{P}/topics/letters"
READ_OUT, READ_LETTERS = f"{P}/subscriptions/out", f"{P}/subscriptions/letters"


@dataclass(frozen=True)
class Received:
    """A message that was pulled."""

    data: bytes
    attributes: dict[str, str]

    @classmethod
    def of(cls, message: dict[str, Any]) -> "Received":
        return cls(base64.b64decode(message.get("data", "")), message.get("attributes", {}))


class Model:
    """A gateway with a model: answers at once, unless a test says otherwise."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.answer: Callable[[dict[str, Any], int], tuple[int, dict[str, str], bytes] | None] = (
            lambda body, _: (200, {}, json.dumps({"said": body.get("prompt")}).encode())
        )
        self.queue = 0.0
        self.running = self.most = 0
        self._lock = threading.Lock()
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                text = f'inference_pool_average_queue_size{{name="p"}} {model.queue}\n'.encode()
                self._send(200, {}, text)

            def do_POST(self) -> None:
                size = int(self.headers.get("content-length") or 0)
                body = json.loads(self.rfile.read(size))
                headers = {name.lower(): value for name, value in self.headers.items()}
                with model._lock:
                    model.asked.append((self.path, body, headers))
                    number = len(model.asked)
                    model.running += 1
                    model.most = max(model.most, model.running)
                try:
                    found = model.answer(body, number)
                finally:
                    with model._lock:
                        model.running -= 1
                if found is None:  # the engine died in the middle
                    self.close_connection = True
                    self.connection.close()
                    return
                self._send(*found)

            def _send(self, status: int, headers: dict[str, str], body: bytes) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                del format, args

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, request: Any, client_address: Any) -> None:
                del request, client_address

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def prompts(self) -> list[Any]:
        return [body.get("prompt") for _, body, _ in self.asked]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Worker(Program):
    """One worker."""

    def __init__(self, folder: Path, settings: dict[str, Any], environment: dict[str, str]) -> None:
        port = free_port()
        file = folder / f"worker-{port}.json"
        file.write_text(json.dumps({**settings, "address": "127.0.0.1", "port": port}))
        argv = [str(OF_STREAMS.python()), "-m", "workloads.stream", str(file)]
        super().__init__(folder / f"worker-{port}.log", argv, environment, port)


class World:
    """Everything that a test asks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = Model()
        self.workers: list[Worker] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self.environment: dict[str, str] = {}
        self.metrics_url = ""
        self.settings: dict[str, Any] = {
            "stream": "summaries",
            "endpoint": self.model.url,
            "model": "llama",
            "names": ["llama", "llama-sql"],
            "objective": "llama-batch",
            "first_wait_seconds": 0.05,
            "longest_wait_seconds": 0.3,
        }

    def start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{program}.log").open("ab") as log:
            made = subprocess.Popen([tool(program), *arguments], stdout=log, stderr=log)
        self._processes.append(made)
        return made

    def work(self, **changes: Any) -> Worker:
        made = Worker(self.folder, {**self.settings, **changes}, self.environment)
        self.workers.append(made)
        made.wait()
        return made

    def stop(self) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.kill()
        for process in self._processes:
            process.kill()
            process.wait(10)
        self.model.stop()


class PubSub(World):
    """With a topic, its subscription, and topics for answers and dead letters."""

    def __init__(self, folder: Path, **subscription: Any) -> None:
        super().__init__(folder)
        api, metrics = free_ports(2)
        self.address, self.metrics_url = f"127.0.0.1:{api}", f"http://127.0.0.1:{metrics}"
        self.start("pubsub", "--address", self.address, "--admin-address", f"127.0.0.1:{metrics}")
        until(lambda: listens(metrics) and listens(api))
        self.environment = {"PUBSUB_EMULATOR_HOST": self.address}
        for topic in (IN, OUT, LETTERS):
            self.call("PUT", topic, {})
        wanted = {"topic": IN, "ackDeadlineSeconds": 10, **subscription}
        self.call("PUT", SUBSCRIPTION, wanted)
        for name, topic in ((READ_OUT, OUT), (READ_LETTERS, LETTERS)):
            self.call("PUT", name, {"topic": topic})
        self.settings |= {
            "source": {"kind": "pubsub", "subscription": SUBSCRIPTION},
            "results": {"kind": "topic", "topic": OUT},
            "dead_letters": LETTERS,
        }

    def call(self, method: str, path: str, body: Any) -> dict[str, Any]:
        """Call the server's REST API, as the provider and other clients do."""
        data = json.dumps(body).encode()
        asked = urllib.request.Request(f"{self.metrics_url}/v1/{path}", data, method=method)  # noqa: S310
        with urllib.request.urlopen(asked, timeout=20) as answer:  # noqa: S310 - of this machine
            return json.loads(answer.read() or b"{}")

    def put(self, body: Any, key: str = "", **attributes: str) -> str:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        message: dict[str, Any] = {"data": base64.b64encode(data).decode()}
        message |= {"attributes": attributes, "orderingKey": key}
        return self.call("POST", f"{IN}:publish", {"messages": [message]})["messageIds"][0]

    def take(self, subscription: str, count: int, seconds: float = LIMIT) -> list[Received]:
        """Return so many messages of a subscription, acknowledged."""
        found: list[Received] = []
        end = time.monotonic() + seconds
        while len(found) < count and time.monotonic() < end:
            answer = self.call("POST", f"{subscription}:pull", {"maxMessages": 1000})
            received = answer.get("receivedMessages", [])
            if received:
                ids = [each["ackId"] for each in received]
                self.call("POST", f"{subscription}:acknowledge", {"ackIds": ids})
            found += [Received.of(each["message"]) for each in received]
        assert len(found) >= count, f"{len(found)} of {count} within {seconds} s"
        return found

    def backlog(self, subscription: str = "in") -> int:
        url = f"{self.metrics_url}/metrics"
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - of this machine
            lines = answer.read().decode().splitlines()
        name = "pubsub_googleapis_com:subscription_num_undelivered_messages{"
        wanted = [x for x in lines if x.startswith(name) and f'"{subscription}"' in x]
        return int(wanted[0].rsplit(" ", 1)[1])
