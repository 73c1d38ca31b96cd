"""Models on Cloud Run: instances start with requests, fill up, and end when idle."""

import http.client
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from twin.host import processes
from twin.host.paths import TwinPaths
from twin.model_providers.dialects import Grants, id_token
from twin.model_providers.run_instances import RunError, RunInstances
from twin.model_providers.server import Providers, serve
from twin.world.run_models import RunModel
from twin.world.run_services import SERVICE
from twin.world.store import Store, new_record

ID = "projects/acme/locations/us-central1/services/llama"
HOST = "llama-314159265358.us-central1.run.app"
ACCOUNT = "llama@acme.iam.gserviceaccount.com"
MEMBER = "gcp:storage/bucketIAMMember:BucketIAMMember"
SPEED = 1000.0
"""At this speed, an idle instance is kept for 0.9 s and a request waits 10 ms for room."""
ENGINE = """
import http.server, sys, time
class Engine(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for word in (b"data: one\\n\\n", b"data: two\\n\\n"):
            self.wfile.write(b"%x\\r\\n%s\\r\\n" % (len(word), word))
            self.wfile.flush()
            time.sleep(0.3)
        self.wfile.write(b"0\\r\\n\\r\\n")
    def log_message(self, *args):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Engine).serve_forever()
"""
"""An engine of this test, which starts at once and streams for 0.6 s."""


def template(**changes: Any) -> dict[str, Any]:
    container = {
        "args": ["gs://models/llama/1.0.0", "--port=8000"],
        "image": "docker.io/vllm/vllm-openai:v0.32.0",
    }
    return {
        "containers": [container],
        "maxInstanceRequestConcurrency": 1,
        "scaling": {"maxInstanceCount": 2, "minInstanceCount": 0},
        "serviceAccount": ACCOUNT,
        "timeout": "20s",
        **changes,
    }


class World:
    """A twin with a service, its weights and the grant to read them."""

    def __init__(self, paths: TwinPaths) -> None:
        self.paths, self.store = paths, Store(paths.cloud_db)
        paths.settings_file.write_text(json.dumps({"speed": SPEED}))
        grant = {"bucket": "models", "member": f"serviceAccount:{ACCOUNT}"}
        grant["role"] = "roles/storage.objectViewer"
        self.store.add(new_record(MEMBER, "grant", "grant", "acme", "urn", grant, grant), [])
        self.manifest = paths.gcs / "models/llama/1.0.0/_MANIFEST.json"
        self.manifest.parent.mkdir(parents=True)
        self.manifest.write_text("{}")
        self.instances = RunInstances(paths, self.command)
        self.deployed = False

    @staticmethod
    def command(_: RunModel, port: int) -> list[str]:
        return [sys.executable, "-c", ENGINE, str(port)]

    def deploy(self, **changes: Any) -> RunModel:
        values = {"location": "us-central1", "name": "llama", "template": template(**changes)}
        record = replace(
            new_record(SERVICE, ID, "llama", "acme", "urn", values, values), status="ready"
        )
        if self.deployed:
            self.store.remove(SERVICE, ID)
        self.store.add(record, [])
        self.deployed = True
        found = self.instances.model_at(HOST)
        assert found is not None
        return found

    def asked(self, model: RunModel, seconds: float = 0.0) -> int:
        """Return 200, or the status of a request that no instance answers."""
        try:
            with self.instances.taken(model):
                time.sleep(seconds)
        except RunError as error:
            return error.status
        return 200


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    paths = TwinPaths(tmp_path / "twin")
    paths.create()
    found = World(paths)
    yield found
    found.instances.close()
    processes.stop(paths, *processes.running(paths))


def until(is_so: Callable[[], bool]) -> None:
    limit = time.monotonic() + 20
    while not is_so():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_the_first_request_starts_an_instance_and_the_next_one_finds_it(world: World) -> None:
    model = world.deploy()
    assert world.instances.count(ID) == 0
    assert [world.asked(model), world.asked(model)] == [200, 200]
    assert world.instances.count(ID) == 1


def test_an_idle_instance_ends_except_the_minimum(world: World) -> None:
    for least in (0, 1):
        model = world.deploy(scaling={"maxInstanceCount": 2, "minInstanceCount": least})
        with ThreadPoolExecutor() as pool:
            assert set(pool.map(lambda _, m=model: world.asked(m, 0.4), range(2))) == {200}
        assert world.instances.count(ID) >= 1
        time.sleep(1.0)
        world.instances.check()
        until(lambda: world.instances.count(ID) == least)  # noqa: B023 - called at once


def test_minimum_instances_start_without_a_request(world: World) -> None:
    world.deploy(scaling={"maxInstanceCount": 2, "minInstanceCount": 2})
    world.instances.check()
    until(lambda: len(processes.running(world.paths)) == 2)


def test_requests_beyond_the_concurrency_of_all_instances_get_429(world: World) -> None:
    model = world.deploy()
    with ThreadPoolExecutor() as pool:
        long = [pool.submit(world.asked, model, 3.0) for _ in range(2)]
        until(lambda: all(each.active for each in world.instances._instances) and bool(long))
        until(lambda: sum(each.active for each in world.instances._instances) == 2)
        assert world.asked(model) == 429
        assert [each.result() for each in long] == [200, 200]
    assert world.instances.count(ID) == 2


def test_an_instance_with_a_larger_concurrency_answers_them_together(world: World) -> None:
    model = world.deploy(maxInstanceRequestConcurrency=8)
    with ThreadPoolExecutor() as pool:
        assert set(pool.map(lambda _: world.asked(model, 0.2), range(6))) == {200}
    assert world.instances.count(ID) == 1


def test_an_instance_without_its_weights_or_the_right_to_read_them_does_not_start(
    world: World,
) -> None:
    assert world.asked(world.deploy(serviceAccount="other@acme.iam.gserviceaccount.com")) == 503
    world.manifest.unlink()
    assert world.asked(world.deploy()) == 503
    world.manifest.write_text("{}")
    assert world.asked(world.deploy()) == 200


def test_a_new_revision_has_instances_of_its_own(world: World) -> None:
    former = world.deploy()
    assert world.asked(former) == 200
    (before,) = processes.running(world.paths)
    model = world.deploy(maxInstanceRequestConcurrency=2)
    assert world.asked(model) == 200
    world.instances.check()
    until(lambda: before not in processes.running(world.paths))
    assert len(processes.running(world.paths)) == 1


@pytest.fixture
def port(world: World) -> Iterator[int]:
    grants = Grants(lambda _: False, lambda _: False, lambda _, who: who == ACCOUNT)
    providers = Providers(grants)
    providers.instances = world.instances
    front = serve(providers, 0)
    threading.Thread(target=front.serve_forever, args=(0.01,), daemon=True).start()
    yield front.server_address[1]
    front.shutdown()
    front.server_close()


def post(port: int, token: str) -> tuple[int, list[float], bytes]:
    """Return status, times of the pieces and content of a request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    headers = {"Authorization": f"Bearer {token}", "Host": HOST}
    connection.request("POST", "/v1/chat/completions", b"{}", headers)
    response = connection.getresponse()
    content, times = b"", list[float]()
    while piece := response.read1(100):
        content += piece
        times.append(time.monotonic())
    connection.close()
    return response.status, times, content


def test_only_an_invoker_starts_an_instance_and_its_stream_arrives_in_pieces(
    world: World, port: int
) -> None:
    world.deploy()
    assert post(port, "")[0] == 401
    assert post(port, id_token(f"https://{HOST}", "other@acme.iam.gserviceaccount.com"))[0] == 403
    assert world.instances.count(ID) == 0
    status, times, content = post(port, id_token(f"https://{HOST}", ACCOUNT))
    assert (status, content) == (200, b"data: one\n\ndata: two\n\n")
    assert times[-1] - times[0] > 0.2
