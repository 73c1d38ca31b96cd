"""A callout's pod: the platform's program with its configuration, probes, metrics and secrets."""

import base64
import hashlib
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest

from twin.cluster.base import podports
from twin.host import processes
from twin.providers.gcp.effects import secret_manager, secret_store
from twin.tests.eventually import eventually
from twin.tests.running.agent.conftest import Agent
from twin.tests.running.agent.objects import condition, pod
from twin.tests.tools import needed
from twin.wire.kube import Kube
from twin.world.store import Store, new_record

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(120)]
KEYS = "projects/acme/secrets/keys"
MEMBER = "gcp:secretmanager/secretIamMember:SecretIamMember"
CONFIG = {
    "region": "us-east5",
    "replicas": 1,
    "teams": {"research": {"models": ["*"]}},
    "prices": {},
    "keys": {"secret": KEYS},
}
CONTAINER = {
    "name": "callout",
    "image": "us-docker.pkg.dev/acme/platform/callout:1",
    "args": ["--config=/etc/callout/config.yaml", "--grpc-port=9010"],
    "ports": [{"containerPort": 9010, "name": "grpc"}, {"containerPort": 9012, "name": "metrics"}],
    "readinessProbe": {"grpc": {"port": 9011}, "periodSeconds": 1},
    "volumeMounts": [{"name": "config", "mountPath": "/etc/callout"}],
}


@pytest.fixture(name="secret")
def a_secret(agent: Agent, namespace: str) -> Iterator[None]:
    """A secret with a document of keys in the twin's cloud, which the namespace's pods can read."""
    needed("callout")
    paths = agent.context.paths
    store = Store(paths.cloud_db)
    pool = f"workloadIdentityPools/{agent.context.spec.project}.svc.id.goog"
    member = f"principal://iam.googleapis.com/projects/1/locations/global/{pool}/subject/ns/{namespace}/sa/default"
    role = {"secretId": KEYS, "role": "roles/secretmanager.secretAccessor", "member": member}
    store.add(new_record(secret_store.SECRET, KEYS, "keys", "acme", "urn", {}, {}), [])
    grant = replace(new_record(MEMBER, "m", "m", "acme", "urn", role, {}), status="ready")
    store.add(grant, [])
    digest = hashlib.sha256(b"any").hexdigest()
    entry = {"id": "a", "team": "research", "sha256": digest, "created": "2026-11-22T00:00:00Z"}
    data = base64.b64encode(json.dumps({"keys": [entry]}).encode()).decode()
    secret_store.add(store, KEYS, {"payload": {"data": data}})
    yield
    processes.stop(paths, secret_manager.NAME)
    paths.cloud_db.unlink()


@pytest.mark.usefixtures("secret")
def test_a_callout_is_ready_and_counts_once_it_has_read_its_keys(
    agent: Agent, kube: Kube, namespace: str
):
    config = {"metadata": {"name": "callout"}, "data": {"config.yaml": json.dumps(CONFIG)}}
    kube.post(f"/api/v1/namespaces/{namespace}/configmaps", config)
    volumes = [{"name": "config", "configMap": {"name": "callout"}}]
    wanted = pod("callout", CONTAINER, kind="cpu", volumes=volumes)
    kube.post(f"/api/v1/namespaces/{namespace}/pods", wanted)
    path = f"/api/v1/namespaces/{namespace}/pods/callout"
    eventually(lambda: condition(kube.get(path), "Ready") == "True", 60)
    found = kube.get(path)
    for port in (9010, 9011, 9012):
        address, moved = podports.resolve(agent.context.dir, found, port)
        assert (address, moved != port) == ("127.0.0.1", True)
    page = urllib.request.urlopen(f"http://{address}:{moved}/metrics", timeout=5).read().decode()
    line = next(each for each in page.splitlines() if each.startswith("callout_key_document_age"))
    assert float(line.split()[1]) >= 0
