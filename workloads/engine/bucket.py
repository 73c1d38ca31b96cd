"""A folder of a bucket, accessed object by object through the JSON API of Cloud Storage.

Requests are authenticated as the pod's service account, with a token from the metadata server. As
for Google's libraries, `STORAGE_EMULATOR_HOST` changes the endpoint; requests then have no token.
Reference: cloud.google.com/storage/docs/json_api/v1/objects/get.
"""

import http.client
import importlib
import json
import os
import shutil
import ssl
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any
from urllib.parse import quote

from .weights_manifest import FileEntry, Manifest

_HOST = "https://storage.googleapis.com"
_SECONDS = 10.0
_AT_ONCE = 8
_CHUNK = 2**20
_METADATA_HOST = "169.254.169.254"
_METADATA_SECONDS = 1.0
_TOKEN = "computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105 - a path
_SPARE_SECONDS = 60.0


class BucketError(Exception):
    """A bucket cannot be read now; the message contains the bucket and the reason."""


class Bucket:
    """A folder of a bucket.

    Args:
        uri: `gs://BUCKET/PATH`.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self._bucket, _, self._folder = self.uri.removeprefix("gs://").partition("/")

    def below(self, name: str) -> "Bucket":
        """Return a subfolder."""
        return Bucket(f"{self.uri}/{name}")

    def read(self, name: str) -> "str | None":
        """Return the text of an object, or None if it does not exist.

        Raises:
            BucketError: The bucket cannot be read.
        """
        body = self._get(name, "alt=media")
        return None if body is None else body.decode(errors="replace")

    def has(self, name: str) -> bool:
        """Return whether an object exists and is not empty.

        Raises:
            BucketError: The bucket cannot be read.
        """
        return self._facts(name).get("size", "0") != "0"

    def wrong(self, manifest: Manifest) -> "list[str]":
        """Return the names of objects that are missing or differ from a manifest.

        Raises:
            BucketError: The bucket cannot be read.
        """
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            good = list(pool.map(self._is_as_said, manifest.files))
        return [
            file.name for file, is_good in zip(manifest.files, good, strict=True) if not is_good
        ]

    def fetch(self, name: str, out: "IO[bytes]") -> int:
        """Copy an object into a file and return its size in bytes; 0 if it does not exist.

        Raises:
            BucketError: The bucket cannot be read.
            OSError: The file cannot be written.
        """
        answer = self._ask("GET", self._object(name, "alt=media"))
        if answer is None:
            return 0
        with answer:
            shutil.copyfileobj(answer, out, _CHUNK)
        return out.tell()

    def write(self, name: str, content: "IO[bytes]", size: int) -> None:
        """Write an object atomically: readers see the old one or the new one.

        Raises:
            BucketError: The bucket cannot be written.
        """
        full = quote(f"{self._folder}/{name}".lstrip("/"), safe="")
        path = f"/upload/storage/v1/b/{quote(self._bucket)}/o?uploadType=media&name={full}"
        answer = self._ask("POST", path, content, {"Content-Length": str(size)})
        if answer is None:
            raise BucketError(f"gs://{self._bucket} is not there")
        answer.close()

    def _is_as_said(self, file: FileEntry) -> bool:
        found = self._facts(file.name)
        return found.get("size") == str(file.size) and found.get("crc32c") == file.crc32c

    def _facts(self, name: str) -> "dict[str, Any]":
        body = self._get(name, "fields=size,crc32c")
        return {} if body is None else json.loads(body)

    def _object(self, name: str, query: str) -> str:
        path = quote(f"{self._folder}/{name}".lstrip("/"), safe="")
        return f"/storage/v1/b/{quote(self._bucket)}/o/{path}?{query}"

    def _get(self, name: str, query: str) -> "bytes | None":
        answer = self._ask("GET", self._object(name, query))
        if answer is None:
            return None
        with answer:
            return answer.read()

    def _ask(
        self,
        method: str,
        path: str,
        body: "IO[bytes] | None" = None,
        more: "dict[str, str] | None" = None,
    ) -> "http.client.HTTPResponse | None":
        """Return the response, or None if the object does not exist."""
        emulator = os.environ.get("STORAGE_EMULATOR_HOST", "")
        host = emulator if "://" in emulator or not emulator else f"http://{emulator}"
        signed = {} if emulator else {"Authorization": f"Bearer {token()}"}
        request = urllib.request.Request(  # noqa: S310 - one of two hosts
            f"{host or _HOST}{path}", body, {**signed, **(more or {})}, method=method
        )
        context = None if emulator else _trust()
        try:
            return urllib.request.urlopen(request, timeout=_SECONDS, context=context)  # noqa: S310
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise BucketError(f"gs://{self._bucket} answers {error.code} {error.reason}") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise BucketError(f"gs://{self._bucket} does not answer: {error}") from None


class _Signed:
    """The token of this pod, cached until a minute before it expires."""

    value = ""
    until = 0.0


def token() -> str:
    """Return an access token.

    Raises:
        BucketError: The metadata server returns none.
    """
    if time.monotonic() < _Signed.until:
        return _Signed.value
    said = _from_metadata(_TOKEN)
    try:
        answer: dict[str, Any] = json.loads(said or "")
        _Signed.value = str(answer["access_token"])
        _Signed.until = time.monotonic() + float(answer["expires_in"]) - _SPARE_SECONDS
    except (ValueError, LookupError, TypeError):
        raise BucketError("the metadata server gives no access token") from None
    return _Signed.value


def _from_metadata(path: str) -> "str | None":
    """Return a value from the metadata server, or None if it does not answer.

    As for Google's libraries, `GCE_METADATA_HOST` changes its address.
    """
    host = os.environ.get("GCE_METADATA_HOST", _METADATA_HOST)
    request = urllib.request.Request(f"http://{host}/{path}", headers={"Metadata-Flavor": "Google"})
    try:
        with urllib.request.urlopen(request, timeout=_METADATA_SECONDS) as answer:  # noqa: S310
            return answer.read().decode().strip()
    except (OSError, ValueError, http.client.HTTPException):
        return None


def _trust() -> ssl.SSLContext:
    """Return the trusted CAs: those of the image, and of Python's own list if it has one."""
    context = ssl.create_default_context()
    try:
        certifi: Any = importlib.import_module("certifi")
        context.load_verify_locations(certifi.where())
    except (ImportError, OSError):
        return context
    return context
