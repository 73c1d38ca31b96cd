"""Signed URLs (V4) for uploads and results, signed by the service's own account without a key."""

import asyncio
import base64
import json
import os
import time
from datetime import UTC, datetime
from typing import Any, Final

import requests

from workloads.common.google_imports import without_warnings

with without_warnings():
    import google.auth
    import google.auth.credentials
    import google.auth.exceptions
    import google.auth.transport.requests
    from google.cloud import storage

IAM_HOST: Final = "IAM_CREDENTIALS_EMULATOR_HOST"
"""Variable with the address of another IAM Service Account Credentials API."""
UPLOAD_HOST: Final = "SIGNED_URL_ENDPOINT"
"""Variable with the address that signed URLs get instead of Google's."""
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_SECONDS: Final = 30


class SigningError(Exception):
    """A URL cannot be signed now; the message is one line."""


class _OwnAccount(google.auth.credentials.Signing):
    """Signs by `signBlob` in the name of one service account."""

    def __init__(self, account: str) -> None:
        self._account = account
        self._credentials: Any = None

    @property
    def signer(self) -> Any:
        """Nothing: there is no key here."""
        return None

    @property
    def signer_email(self) -> str:
        """The account."""
        return self._account

    def sign_bytes(self, message: bytes) -> bytes:
        """Return the signature of a message."""
        host = os.environ.get(IAM_HOST)
        base = f"http://{host}" if host else "https://iamcredentials.googleapis.com"
        url = f"{base}/v1/projects/-/serviceAccounts/{self._account}:signBlob"
        body = json.dumps({"payload": base64.b64encode(message).decode()})
        heads = {"content-type": "application/json", **({} if host else self._token())}
        answer = requests.post(url, data=body, headers=heads, timeout=_SECONDS)
        if answer.status_code != 200:
            raise SigningError(f"signBlob: HTTP {answer.status_code}")
        return base64.b64decode(answer.json()["signedBlob"])

    def _token(self) -> dict[str, str]:
        if self._credentials is None:
            default: Any = google.auth.default
            self._credentials = default(scopes=[_SCOPE])[0]
        if not self._credentials.valid:
            self._credentials.refresh(google.auth.transport.requests.Request())
        return {"authorization": f"Bearer {self._credentials.token}"}


class Signer:
    """Signs URLs for the objects of one bucket.

    Args:
        bucket: Name of the bucket.
        account: Email of the account, which needs the permission `signBlob` on itself.
        seconds: Lifetime of a URL to read.
    """

    def __init__(self, bucket: str, account: str, seconds: int) -> None:
        client: Any = storage.Client.create_anonymous_client()  # it signs, and never calls
        self._bucket: Any = client.bucket(bucket)
        self._credentials = _OwnAccount(account)
        self._seconds = seconds

    async def upload(self, name: str, kind: str, size: int, until: float) -> dict[str, Any]:
        """Return URL and headers for one upload, of this type and at most this size."""
        headers = {
            "content-type": kind,
            "x-goog-content-length-range": f"1,{size}",
            "x-goog-if-generation-match": "0",  # once
        }
        url = await asyncio.to_thread(self._sign, "PUT", name, headers, until)
        return {"method": "PUT", "url": url, "headers": headers}

    async def download(self, name: str) -> str:
        """Return a URL to read an object."""
        until = time.time() + self._seconds
        return await asyncio.to_thread(self._sign, "GET", name, {}, until)

    def _sign(self, method: str, name: str, headers: dict[str, str], until: float) -> str:
        kind = headers.get("content-type")
        others = {key: value for key, value in headers.items() if key != "content-type"}
        endpoint = os.environ.get(UPLOAD_HOST) or "https://storage.googleapis.com"
        try:
            return self._bucket.blob(name).generate_signed_url(
                api_access_endpoint=endpoint,
                content_type=kind,
                credentials=self._credentials,
                expiration=datetime.fromtimestamp(int(until), UTC),
                headers=others,
                method=method,
                version="v4",
            )
        except (requests.RequestException, google.auth.exceptions.GoogleAuthError) as error:
            raise SigningError(f"signBlob: {type(error).__name__}") from error


def stamp(seconds: float) -> str:
    """Return a time as the API writes it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
