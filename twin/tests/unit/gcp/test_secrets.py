"""Secrets: versions of stacks and of operators, and the answers of Secret Manager's API."""

import base64
import json
from typing import Any

import pytest

from twin.providers.gcp.effects import secret_manager
from twin.providers.gcp.effects.secret_manager import answer
from twin.providers.gcp.effects.secret_store import SECRET, VERSION, crc32c
from twin.providers.gcp.resources.identity import project_number
from twin.tests.unit.gcp.conftest import Cloud, Made, Refused

MEMBER = "gcp:secretmanager/secretIamMember:SecretIamMember"
ID = "projects/acme/secrets/keys"
PUBLIC = f"projects/{project_number('acme')}/secrets/keys"
LATEST = f"/v1/{ID}/versions/latest:access"


@pytest.fixture(name="secret")
def a_secret(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> Made:
    monkeypatch.setattr(secret_manager, "url", lambda _: "http://127.0.0.1:1")
    inputs = {"secretId": "keys", "replication": {"auto": {}}}
    return cloud.create(SECRET, "keys", inputs)


def grant(cloud: Cloud, **fields: str) -> None:
    role = "roles/secretmanager.secretAccessor"
    inputs = {"secretId": ID, "role": role, "member": "allUsers", **fields}
    cloud.create(MEMBER, "reader", inputs)


def call(cloud: Cloud, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    content = b"" if body is None else json.dumps(body).encode()
    return answer(cloud.world.store, method, path, content)


def read(cloud: Cloud, version: str = "latest") -> Any:
    status, found = call(cloud, "GET", f"/v1/{ID}/versions/{version}:access")
    return base64.b64decode(found["payload"]["data"]).decode() if status == 200 else status


def payload(text: str) -> dict[str, Any]:
    return {"payload": {"data": base64.b64encode(text.encode()).decode()}}


def test_a_version_of_a_stack_is_read_with_its_checksum(cloud: Cloud, secret: Made) -> None:
    made = cloud.create(VERSION, "v", {"secret": secret.id, "secretData": "one"})
    grant(cloud)
    assert made.id == f"{ID}/versions/1"
    assert call(cloud, "GET", LATEST) == (
        200,
        {
            "name": f"{PUBLIC}/versions/1",
            "payload": {"data": "b25l", "dataCrc32c": str(crc32c(b"one"))},
        },
    )
    assert crc32c(b"123456789") == 0xE3069283  # the check value of CRC-32C


def test_versions_of_stacks_and_operators_are_numbered_together(cloud: Cloud, secret: Made) -> None:
    grant(cloud)
    cloud.create(VERSION, "v", {"secret": secret.id, "secretData": "one"})
    status, added = call(cloud, "POST", f"/v1/{ID}:addVersion", payload("two"))
    assert (status, added["name"], added["state"]) == (200, f"{PUBLIC}/versions/2", "ENABLED")
    third = cloud.create(VERSION, "w", {"secret": secret.id, "secretData": "three"})
    assert third.id == f"{ID}/versions/3"
    assert [read(cloud, v) for v in ("1", "2", "3", "latest")] == ["one", "two", "three", "three"]
    cloud.delete(third)
    cloud.create(VERSION, "x", {"secret": secret.id, "secretData": "four"})
    _, found = call(cloud, "GET", f"/v1/{ID}/versions")
    assert [each["name"].rpartition("/")[2] for each in found["versions"]] == ["4", "2", "1"]


def test_latest_is_the_version_made_last_even_where_it_is_disabled(
    cloud: Cloud, secret: Made
) -> None:
    grant(cloud)
    for text in ("one", "two"):
        call(cloud, "POST", f"/v1/{ID}:addVersion", payload(text))
    status, found = call(cloud, "POST", f"/v1/{ID}/versions/2:disable", {})
    assert (status, found["state"]) == (200, "DISABLED")
    status, found = call(cloud, "GET", LATEST)
    assert (status, found["error"]["status"]) == (400, "FAILED_PRECONDITION")
    assert read(cloud, "1") == "one"
    call(cloud, "POST", f"/v1/{ID}/versions/2:enable", {})
    assert read(cloud) == "two"
    call(cloud, "POST", f"/v1/{ID}/versions/2:destroy", {})
    status, found = call(cloud, "POST", f"/v1/{ID}/versions/2:enable", {})
    assert (
        found["error"]["message"] == f"Secret Version [{PUBLIC}/versions/2] is in DESTROYED state."
    )
    assert "dHdv" not in cloud.world.paths.cloud_db.read_bytes().decode(errors="replace")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("GET", LATEST, None, 404, "NOT_FOUND"),  # no versions yet
        ("GET", f"/v1/{ID}/versions/7", None, 404, "NOT_FOUND"),
        ("POST", "/v1/projects/acme/secrets/gone:addVersion", payload("x"), 404, "NOT_FOUND"),
        ("POST", f"/v1/{ID}:addVersion", {"payload": {"data": "%"}}, 400, "INVALID_ARGUMENT"),
        ("POST", f"/v1/{ID}:addVersion", payload("x" * 65_537), 400, "INVALID_ARGUMENT"),
        (
            "POST",
            f"/v1/{ID}:addVersion",
            {"payload": {"data": "eA==", "dataCrc32c": "1"}},
            400,
            "INVALID_ARGUMENT",
        ),
        ("POST", f"/v1/{ID}:addVersion", [], 400, "INVALID_ARGUMENT"),
        ("DELETE", f"/v1/{ID}/versions/1", None, 404, "NOT_FOUND"),
        ("GET", "/", None, 404, "NOT_FOUND"),
    ],
)
def test_a_refusal_has_the_shape_of_googles_errors(
    cloud: Cloud, secret: Made, method: str, path: str, body: Any, status: int, reason: str
) -> None:
    grant(cloud)
    found, told = call(cloud, method, path, body)
    assert (found, told["error"]["code"], told["error"]["status"]) == (status, status, reason)


def test_a_secret_that_nobody_may_read_is_denied(cloud: Cloud, secret: Made) -> None:
    call(cloud, "POST", f"/v1/{ID}:addVersion", payload("one"))
    status, told = call(cloud, "GET", LATEST)
    assert (status, told["error"]["status"]) == (403, "PERMISSION_DENIED")
    grant(cloud, role="roles/secretmanager.viewer")
    assert call(cloud, "GET", LATEST)[0] == 403
    grant(cloud, secretId="keys")
    assert read(cloud) == "one"


def test_a_payload_of_a_stack_is_at_most_64_kib(cloud: Cloud, secret: Made) -> None:
    too_large = {"secret": secret.id, "secretData": "x" * 65_537}
    with pytest.raises(Refused, match=r"too large \(\[65537\] > 65536 bytes\)"):
        cloud.create(VERSION, "v", too_large)


def test_versions_go_with_their_secret(cloud: Cloud, secret: Made) -> None:
    grant(cloud)
    call(cloud, "POST", f"/v1/{ID}:addVersion", payload("one"))
    cloud.delete(secret)
    assert cloud.world.store.find(VERSION) == []
