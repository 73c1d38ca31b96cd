import base64
import http.client
import json
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress

import pytest

from tests.running.programs import PYTHON
from twin.host.paths import REPOSITORY
from twin.tests.eventually import pause

TIMEOUT = 300.0


class Server:
    """A server process, with the fake pipeline unless the settings say another."""

    def __init__(self, own, /, python=(), environment=None, **settings):
        self.folder = own
        self.port = _free_port()
        given = {
            "folder": str(own),
            "host": "127.0.0.1",
            "model": "flux",
            "pipeline": "tests.running.diffusion.fake:load",
            "platform": "cpu",
            "port": self.port,
            "sizes": ["64x64", "32x64"],
            **settings,
        }
        file = own / "settings.json"
        file.write_text(json.dumps(given))
        self.log = own / "server.log"
        argv = ["serve", "--config", str(file)]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*(python or (PYTHON.python(), "-m", "workloads.diffusion")), *argv],
                cwd=REPOSITORY,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._threads = ThreadPoolExecutor(16)

    def until(self, holds, seconds=TIMEOUT):
        began = time.monotonic()
        while not (found := holds()):
            waited = time.monotonic() - began
            assert self.process.poll() is None, self.log.read_text()
            assert waited < seconds, self.log.read_text()
            time.sleep(pause(waited))
        return found

    def _connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)

    def get(self, path):
        """Return status and body; 0 if nothing listens."""
        with closing(self._connection()) as connection, suppress(ConnectionError):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        return 0, ""

    def ready(self, seconds=TIMEOUT):
        self.until(lambda: self.get("/health")[0] == 200, seconds)
        return self

    def post(self, path, headers=None, **body):
        """Return status, bytes and headers of a request."""
        kinds = {"Content-Type": "application/json", **(headers or {})}
        with closing(self._connection()) as connection:
            connection.request("POST", path, json.dumps(body), kinds)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.headers

    def ask(self, headers=None, **body):
        """Return status, body and headers of a request for images."""
        status, answer, told = self.post("/v1/images/generations", headers, **body)
        return status, json.loads(answer), told

    def client(self):
        """Return OpenAI's client of this server."""
        import openai  # noqa: PLC0415 - a second that unit tests need not wait

        return openai.OpenAI(
            api_key="none", base_url=f"http://127.0.0.1:{self.port}/v1", max_retries=0
        )

    def begin(self, **body):
        """Ask in a thread."""
        return self._threads.submit(self.ask, **body)

    def hold(self, folder):
        """Keep a chip busy until a file exists; return the file and the answer to come."""
        gate = folder / "gate"
        held = self.begin(prompt=f"hold {gate}")
        self.until(lambda: self.metric("diffusion_images_running") == 1)
        return gate, held

    def wait_for(self, waiting):
        """Wait until as many images wait for a chip."""
        self.until(lambda: self.metric("diffusion_images_waiting") == waiting)

    def hang_up_on(self, path="/v1/images/generations", **body):
        """Ask, and return a function that closes the connection."""
        connection = self._connection()
        kinds = {"Content-Type": "application/json"}
        connection.request("POST", path, json.dumps(body), kinds)
        return connection.close

    def metric(self, name):
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[-1])
        return None

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(TIMEOUT)
        return self.process.returncode


def drawn(answer):
    """Return what the fake pipeline wrote into each picture of an answer."""
    status, body, _ = answer
    assert status == 200, body
    return [json.loads(base64.b64decode(each["b64_json"])) for each in body["data"]]


def _free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture
def serve(tmp_path):
    """Start servers that end with the test."""
    with servers(tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A server without special settings, for tests that leave it as it was."""
    with servers(tmp_path_factory.mktemp("servers")) as start:
        yield start().ready()


@contextmanager
def servers(own):
    """Give a function that starts servers, each with a folder; they end with the block."""
    started = []

    def start(**settings):
        folder = own / str(len(started))
        folder.mkdir()
        started.append(Server(folder, **settings))
        return started[-1]

    try:
        yield start
    finally:
        for server in started:
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()
