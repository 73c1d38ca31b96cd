"""Google's REST APIs as a twin answers commands."""

import base64
from pathlib import Path

import pytest

from scripts.backend.twin_cloud import twin_cloud
from scripts.shared.google_cloud import NotFound
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects.secret_store import SECRET
from twin.providers.gcp.resources.project_numbers import learn
from twin.world.store import Store, new_record

NAME = "projects/acme/secrets/hub-token"
API = f"secretmanager.googleapis.com/v1/{NAME}"
MEMBER = "gcp:secretmanager/secretIamMember:SecretIamMember"


def test_a_command_adds_a_version_of_a_secret_and_reads_the_newest(tmp_path: Path):
    paths = TwinPaths(tmp_path)
    store = Store(paths.cloud_db)
    role = {"secretId": NAME, "role": "roles/secretmanager.secretAccessor"}
    store.add(new_record(SECRET, NAME, "hub-token", "acme", "urn", {}, {}), [])
    store.add(new_record(MEMBER, "m", "m", "acme", "urn", role, {}), [])
    cloud = twin_cloud("acme", 1, paths)
    with pytest.raises(NotFound):
        cloud.get(f"{API}/versions/latest:access")
    for token in (b"one", b"two"):
        data = base64.b64encode(token).decode()
        cloud.post(f"{API}:addVersion", {"payload": {"data": data}})
    found = cloud.get(f"{API}/versions/latest:access")
    assert base64.b64decode(found["payload"]["data"]) == b"two"


def test_the_number_of_a_project_is_the_one_that_its_members_have(tmp_path: Path):
    paths = TwinPaths(tmp_path)
    assert twin_cloud("acme", 5, paths).project_number() == "5"
    learn("acme", "42", Store(paths.cloud_db))
    assert twin_cloud("acme", 5, paths).project_number() == "42"
    assert twin_cloud("other", 5, paths).project_number() == "5"
