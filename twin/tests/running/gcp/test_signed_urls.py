"""Signed URLs, from the platform's own signer to the object storage of the twin."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import requests

from twin.host import processes
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import gcs
from twin.providers.gcp.server import world_of
from twin.providers.gcp.signed import server
from twin.world.store import new_record
from workloads.personal.signing import Signer, SigningError

pytestmark = pytest.mark.needs_tools
EMAIL = "front@acme.iam.gserviceaccount.com"
BUCKET = "acme-personal"
PNG = b"\x89PNG\r\n\x1a\n"


class Cloud:
    """A twin with one bucket and one account."""

    def __init__(self, paths: TwinPaths) -> None:
        self.paths = paths
        self.store = world_of(paths).store
        gcs.create_bucket(paths, BUCKET, "acme")
        self.add("serviceaccount/account:Account", EMAIL, {}, {"email": EMAIL})

    def add(self, kind: str, name: str, inputs: dict[str, Any], outputs: dict[str, Any]) -> None:
        record = new_record(f"gcp:{kind}", name, name, "acme", "urn", inputs, outputs)
        self.store.add(record, [])

    def let_sign(self) -> None:
        role = "roles/iam.serviceAccountTokenCreator"
        grant = {"serviceAccountId": f"projects/acme/serviceAccounts/{EMAIL}", "role": role}
        member = {"member": f"serviceAccount:{EMAIL}"}
        self.add("serviceaccount/iAMMember:IAMMember", "signs", {**grant, **member}, {})

    def let_write(self) -> None:
        inputs = {"bucket": BUCKET, "role": "roles/storage.objectUser"}
        member = {"member": f"serviceAccount:{EMAIL}"}
        self.add("storage/bucketIAMMember:BucketIAMMember", "w", {**inputs, **member}, {})

    def url(self, seconds: float = 60, size: int = 100) -> dict[str, Any]:
        signer = Signer(BUCKET, EMAIL, 60)
        name = "users/a b/1.png"
        return asyncio.run(signer.upload(name, "image/png", size, time.time() + seconds))


@pytest.fixture
def cloud(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    paths = TwinPaths(tmp_path)
    made = Cloud(paths)
    for name, value in server.environment(paths).items():
        monkeypatch.setenv(name, value)
    yield made
    processes.stop(paths, server.NAME, gcs.NAME)


def put(upload: dict[str, Any], content: bytes = PNG, /, **headers: str) -> tuple[int, str]:
    sent = {**upload["headers"], **headers}
    answer = requests.put(upload["url"], data=content, headers=sent, timeout=10)
    return answer.status_code, answer.text


def test_a_url_uploads_once_what_it_was_signed_for(cloud: Cloud) -> None:
    cloud.let_sign()
    cloud.let_write()
    upload = cloud.url()
    assert put(upload) == (200, "")
    status, text = put(upload, b"other")
    assert (status, "PreconditionFailed" in text) == (412, True)
    url = asyncio.run(Signer(BUCKET, EMAIL, 60).download("users/a b/1.png"))
    assert requests.get(url, timeout=10).content == PNG


def _as_get(upload: dict[str, Any]) -> tuple[int, str]:
    answer = requests.get(upload["url"], headers=upload["headers"], timeout=10)
    return answer.status_code, answer.text


def _elsewhere(upload: dict[str, Any]) -> tuple[int, str]:
    return put({**upload, "url": upload["url"].replace("/1.png", "/2.png")})


REFUSED: dict[str, tuple[Callable[[dict[str, Any]], tuple[int, str]], int, str]] = {
    "another method": (_as_get, 403, "SignatureDoesNotMatch"),
    "another object": (_elsewhere, 403, "SignatureDoesNotMatch"),
    "another type": (
        lambda upload: put(upload, PNG, **{"content-type": "text/html"}),
        403,
        "SignatureDoesNotMatch",
    ),
    "a larger range": (
        lambda upload: put(upload, PNG, **{"x-goog-content-length-range": "1,9999"}),
        403,
        "SignatureDoesNotMatch",
    ),
    "a larger picture": (lambda upload: put(upload, bytes(101)), 400, "EntityTooLarge"),
    "nothing": (lambda upload: put(upload, b""), 400, "EntityTooSmall"),
    "a header that is not signed": (
        lambda upload: put(upload, PNG, **{"x-goog-meta-a": "b"}),
        400,
        "x-goog-meta-a must be signed",
    ),
    "no signature": (
        lambda upload: put({**upload, "url": upload["url"].partition("?")[0]}),
        400,
        "X-Goog-Algorithm is missing",
    ),
}


def test_a_url_is_good_for_nothing_else(cloud: Cloud) -> None:
    cloud.let_sign()
    cloud.let_write()
    upload = cloud.url()
    for what, (attempt, status, message) in REFUSED.items():
        found = attempt(upload)
        assert (found[0], message in found[1]) == (status, True), (what, found)
    assert list(gcs.objects(cloud.paths, BUCKET)) == []


def test_an_expired_url_is_refused(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    cloud.let_sign()
    cloud.let_write()
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    monkeypatch.setattr("google.cloud.storage._signing._NOW", lambda _: hour_ago)
    upload = cloud.url(seconds=-60)
    status, text = put(upload)
    assert (status, "ExpiredToken" in text) == (400, True)


def test_an_account_signs_only_with_the_role_and_writes_only_where_it_may(cloud: Cloud) -> None:
    with pytest.raises(SigningError, match="signBlob: HTTP 403"):
        cloud.url()
    cloud.let_sign()
    status, text = put(cloud.url())
    assert (status, "AccessDenied" in text) == (403, True)
    with pytest.raises(SigningError, match="signBlob: HTTP 404"):
        asyncio.run(Signer(BUCKET, f"x{EMAIL}", 60).download("a"))
