"""A model on Cloud Run, from zero instances to an answer of the simulated engine and back."""

import http.client
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gke_inference.intent.cloud_run import CloudRunSettings
from gke_inference.serving.cloud_run.container import container, run_serving
from gke_inference.settings.size import Size
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.model_providers.dialects import Grants, id_token
from twin.model_providers.run_instances import RunInstances
from twin.model_providers.server import Providers, serve
from twin.tests.running.sample import VERSION, put_weights
from twin.world.run_services import SERVICE
from twin.world.store import Store, new_record

pytestmark = pytest.mark.needs_tools

NAME = "llama-3.1-8b"
HOST = "llama-314159265358.us-central1.run.app"
ACCOUNT = "llama@acme.iam.gserviceaccount.com"
MEMBER = "gcp:storage/bucketIAMMember:BucketIAMMember"


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[TwinPaths]:
    """Return a twin with a service as `CloudRunModel` makes it, its weights and its grant."""
    found = TwinPaths(tmp_path / "twin")
    found.create()
    found.settings_file.write_text(json.dumps({"speed": 300.0}))  # idle after 3 s
    put_weights(found.gcs / "models" / NAME)
    model = CloudRunSettings(
        accelerator="nvidia-l4",
        context=8192,
        size=Size(parameters_billion=8.03),
        weights=f"gs://models/{NAME}@{VERSION}",
    )
    made = container(run_serving(NAME, model, 60, model.weights), model, "docker.io/vllm/vllm:1")
    template = {
        "containers": [{"args": made["args"], "image": made["image"]}],
        "nodeSelector": {"accelerator": "nvidia-l4"},
        "serviceAccount": ACCOUNT,
    }
    service = {"location": "us-central1", "name": "llama", "template": template}
    grant = {"bucket": "models", "member": f"serviceAccount:{ACCOUNT}"}
    grant["role"] = "roles/storage.objectViewer"
    store = Store(found.cloud_db)
    store.add(new_record(MEMBER, "grant", "grant", "acme", "urn", grant, grant), [])
    record = new_record(SERVICE, "service", "llama", "acme", "urn", service, service)
    store.add(replace(record, status="ready"), [])
    yield found
    processes.stop(found, *processes.running(found))


def asked(port: int) -> tuple[int, dict[str, object]]:
    """Return the status and the answer to a request of an invoker."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    token = id_token(f"https://{HOST}", ACCOUNT)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Host": HOST}
    messages = [{"role": "user", "content": "Who is there at night?"}]
    body = json.dumps({"max_tokens": 4, "messages": messages, "model": NAME})
    connection.request("POST", "/v1/chat/completions", body, headers)
    response = connection.getresponse()
    found = response.status, json.loads(response.read())
    connection.close()
    return found


def test_a_simulated_engine_starts_with_the_first_request_and_ends_when_it_is_idle(
    paths: TwinPaths,
) -> None:
    instances, ended = RunInstances(paths), threading.Event()
    providers = Providers(Grants(lambda _: False, lambda _: False, lambda _, who: who == ACCOUNT))
    providers.instances = instances
    front = serve(providers, 0)
    threading.Thread(target=front.serve_forever, args=(0.01,), daemon=True).start()
    threading.Thread(target=instances.run, args=(ended,), daemon=True).start()
    try:
        assert processes.running(paths) == {}
        for _ in range(2):
            status, answer = asked(front.server_address[1])
            assert (status, answer["model"]) == (200, NAME)
            assert len(processes.running(paths)) == 1
        limit = time.monotonic() + 60
        while processes.running(paths):
            assert time.monotonic() < limit
            time.sleep(0.1)
    finally:
        ended.set()
        front.shutdown()
        front.server_close()
        instances.close()
