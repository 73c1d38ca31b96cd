"""Secret Manager as a process of the twin."""

import base64
import os
import signal

import pytest
import requests

from twin.host import processes
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import secret_manager
from twin.providers.gcp.effects.secret_store import SECRET
from twin.tests.eventually import eventually
from twin.world.store import Store, new_record

pytestmark = pytest.mark.needs_tools
ID = "projects/acme/secrets/keys"
MEMBER = "gcp:secretmanager/secretIamMember:SecretIamMember"


def test_versions_survive_the_death_of_the_server_and_its_address_stays(tmp_path):
    paths = TwinPaths(tmp_path / "twin")
    store = Store(paths.cloud_db)
    store.add(new_record(SECRET, ID, "keys", "acme", "urn", {}, {}), [])
    role = {"secretId": ID, "role": "roles/secretmanager.secretAccessor"}
    store.add(new_record(MEMBER, "m", "m", "acme", "urn", role, {}), [])
    endpoint = secret_manager.url(paths)
    try:
        body = {"payload": {"data": base64.b64encode(b"one").decode()}}
        added = requests.post(f"{endpoint}/v1/{ID}:addVersion", json=body, timeout=10)
        assert (added.status_code, added.json()["state"]) == (200, "ENABLED")
        pid = processes.pid_of(paths, secret_manager.NAME)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not secret_manager.runs(paths), 10)
        secret_manager.repair(paths)
        assert secret_manager.url(paths) == endpoint
        found = requests.get(f"{endpoint}/v1/{ID}/versions/latest:access", timeout=10)
        assert base64.b64decode(found.json()["payload"]["data"]) == b"one"
    finally:
        processes.stop(paths, secret_manager.NAME)
