"""Objects in Cloud Storage, or in a substitute server, through Google's client."""

import io
import json
import threading
import warnings
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import requests.adapters
import requests.exceptions

from workloads.transfer.errors import AlreadyThere, NoBucket, NoCredentials, TransferError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of Pythons that they will drop, years ahead
    import google.api_core.exceptions as api_errors
    import google.auth
    import google.auth.exceptions
    import google.auth.transport.requests
    import google.resumable_media.common as media_errors
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import storage

_SECONDS: Final = (20, 300)  # to connect, and between two packets
_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_CHUNK: Final = 32 * 2**20
_MOST_COMPOSED: Final = 32  # https://cloud.google.com/storage/docs/composite-objects


@dataclass(frozen=True)
class Stored:
    """An object as Cloud Storage describes it."""

    name: str
    size: int
    crc32c: str
    """Checksum in base64, as in a manifest."""
    generation: int


class Store:
    """Cloud Storage operations for transfers. Thread-safe; every error is one line.

    Only object permissions are used, those of `roles/storage.objectUser`: no call reads a bucket's
    own settings.
    """

    def __init__(
        self, project: str | None, *, endpoint: str | None = None, workers: int = 8
    ) -> None:
        """Open Cloud Storage with the application default credentials.

        Args:
            project: Project that calls are counted for; None: the bucket's.
            endpoint: URL of a server that stands in for Google, which wants no credentials.
            workers: Threads that use it at a time.

        Raises:
            NoCredentials: There are no credentials.
        """
        options: dict[str, Any] = {"project": project}
        if endpoint is not None:
            options["client_options"] = {"api_endpoint": endpoint}
            options["credentials"] = AnonymousCredentials()
        with _plain("Cloud Storage"):
            client: Any = storage.Client(**options)
            adapter = requests.adapters.HTTPAdapter(pool_connections=2, pool_maxsize=workers + 2)
            for scheme in ("https://", "http://"):
                client._http.mount(scheme, adapter)  # it has no other way in
        self._client = client
        self._lock = threading.Lock()

    def check_bucket(self, bucket: str) -> None:
        """Return if the bucket exists and its objects may be listed.

        Raises:
            NoBucket: It does not.
            TransferError: Access is denied.
        """
        with _plain(f"gs://{bucket}", NoBucket):
            next(iter(self._client.list_blobs(bucket, max_results=1, timeout=_SECONDS)), None)

    def objects(self, bucket: str, prefix: str) -> dict[str, Stored]:
        """Return the objects whose name begins with a prefix, by name.

        Raises:
            NoBucket: The bucket does not exist.
            TransferError: Read access is denied.
        """
        with _plain(f"gs://{bucket}", NoBucket):
            blobs: Any = self._client.list_blobs(bucket, prefix=prefix, timeout=_SECONDS)
            found = [_stored(blob) for blob in blobs]
        return {each.name: each for each in found if not each.name.endswith("/")}

    def get(self, bucket: str, name: str) -> Stored | None:
        """Return an object's description, or None if there is none."""
        with _plain(f"gs://{bucket}/{name}"):
            blob = self._client.bucket(bucket).get_blob(name, timeout=_SECONDS)
            return None if blob is None else _stored(blob)

    def read(self, bucket: str, name: str) -> str | None:
        """Return the text of a small object, or None if there is none."""
        with _plain(f"gs://{bucket}/{name}"):
            try:
                content: bytes = self._blob(bucket, name).download_as_bytes(timeout=_SECONDS)
            except api_errors.NotFound:
                return None
            return content.decode("utf-8", errors="replace")

    def write(self, bucket: str, name: str, text: str, *, generation: int) -> None:
        """Write a small object in place of one generation of it; 0: where there is none.

        Raises:
            AlreadyThere: There is another generation.
        """
        with _plain(f"gs://{bucket}/{name}"):
            self._blob(bucket, name).upload_from_string(
                text,
                content_type="application/json",
                if_generation_match=generation,
                timeout=_SECONDS,
            )

    def upload(
        self, bucket: str, name: str, stream: io.RawIOBase, size: int, *, is_final: bool
    ) -> str:
        """Write an object from a stream and return its CRC-32C, which Google compared.

        Args:
            bucket: Bucket.
            name: Name of the object.
            stream: Content from position 0; it can seek.
            size: Bytes.
            is_final: Whether the object must not be there yet; a part may be overwritten.

        Raises:
            AlreadyThere: It is there.
        """
        blob = self._blob(bucket, name)
        with _plain(f"gs://{bucket}/{name}"):
            blob.upload_from_file(
                stream,
                size=size,
                checksum="crc32c",
                content_type="application/octet-stream",
                if_generation_match=0 if is_final else None,
                timeout=_SECONDS,
            )
        return str(blob.crc32c)

    def compose(self, bucket: str, parts: list[str], name: str, *, is_final: bool) -> Stored:
        """Make one object of at most 32 others, in order.

        Raises:
            AlreadyThere: It is there, and `is_final` says that it must not be.
        """
        if not 1 <= len(parts) <= _MOST_COMPOSED:
            raise ValueError(f"parts: must be 1 to {_MOST_COMPOSED}, got {len(parts)}")
        blob = self._blob(bucket, name)
        blob.content_type = "application/octet-stream"
        with _plain(f"gs://{bucket}/{name}"):
            blob.compose(
                [self._blob(bucket, part) for part in parts],
                if_generation_match=0 if is_final else None,
                timeout=_SECONDS,
            )
            blob.reload(timeout=_SECONDS)
        return _stored(blob)

    def copy(self, source: str, name: str, target: str, step: Callable[[int], None]) -> Stored:
        """Copy an object to another bucket, inside Cloud Storage.

        Args:
            source: Bucket with the object.
            name: Name of the object, the same in both.
            target: Bucket without it.
            step: Is called with the bytes that were copied since the last call.

        Raises:
            AlreadyThere: The target has it.
        """
        origin, blob = self._blob(source, name), self._blob(target, name)
        token, done = None, 0
        with _plain(f"gs://{target}/{name}"):
            while True:
                token, copied, _ = blob.rewrite(
                    origin, token=token, if_generation_match=0, timeout=_SECONDS
                )
                step(int(copied) - done)
                done = int(copied)
                if token is None:
                    break
            blob.reload(timeout=_SECONDS)
        return _stored(blob)

    def delete(self, bucket: str, name: str) -> None:
        """Delete an object; one that is not there is no error."""
        with _plain(f"gs://{bucket}/{name}"):
            try:
                self._blob(bucket, name).delete(timeout=_SECONDS)
            except api_errors.NotFound:
                return

    def chunks(self, bucket: str, name: str, size: int, start: int = 0) -> Iterator[bytes]:
        """Yield an object's content from a position on, in chunks.

        Raises:
            TransferError: It cannot be read, or ends before `size`.
        """
        blob = self._blob(bucket, name)
        for first in range(start, size, _CHUNK):
            last = min(first + _CHUNK, size) - 1
            with _plain(f"gs://{bucket}/{name}"):
                content: bytes = blob.download_as_bytes(
                    start=first, end=last, checksum=None, timeout=_SECONDS
                )
            if len(content) != last + 1 - first:
                message = f"must have {size} bytes, got {first + len(content)}"
                raise TransferError(f"gs://{bucket}/{name}: {message}")
            yield content

    def _blob(self, bucket: str, name: str) -> Any:
        return self._client.bucket(bucket).blob(name)


def fetch(url: str) -> Any:
    """Return the JSON of one of Google's addresses, with the application default credentials.

    Raises:
        TransferError: There are none, or Google refuses.
    """
    auth: Any = google.auth
    with _plain(url):
        credentials, _ = auth.default(scopes=[_SCOPE])
        session: Any = google.auth.transport.requests.AuthorizedSession(credentials)
        answer = session.get(url, timeout=_SECONDS)
    if answer.status_code != 200:
        raise TransferError(f"{url}: answered {answer.status_code}")
    return answer.json()


@contextmanager
def _plain(what: str, missing: type[TransferError] = TransferError) -> Generator[None]:
    """Turn what Google's client raises into one line; `missing` is the error of a 404."""
    try:
        yield
    except api_errors.PreconditionFailed:
        raise AlreadyThere(f"{what}: must not be there yet, and is") from None
    except api_errors.NotFound:
        raise missing(f"{what}: does not exist") from None
    except (api_errors.Forbidden, api_errors.Unauthorized) as error:
        raise TransferError(f"{what}: no permission: {_reason(error)}") from None
    except api_errors.RetryError as error:
        raise TransferError(f"{what}: no answer in time: {_one_line(_cause(error))}") from None
    except api_errors.GoogleAPICallError as error:
        raise TransferError(f"{what}: answered {error.code}: {_reason(error)}") from None
    except google.auth.exceptions.DefaultCredentialsError:
        message = "no Google credentials: run 'gcloud auth application-default login'"
        raise NoCredentials(message) from None
    except google.auth.exceptions.GoogleAuthError as error:
        raise TransferError(f"the credentials do not work: {_one_line(error)}") from None
    except media_errors.DataCorruption as error:
        raise TransferError(f"{what}: arrived with another checksum: {_one_line(error)}") from None
    except media_errors.InvalidResponse as error:
        answer: Any = error.response
        raise TransferError(f"{what}: answered {answer.status_code}") from None
    except requests.exceptions.RequestException as error:
        raise TransferError(f"{what}: cannot be reached: {_one_line(error)}") from None


def _stored(blob: Any) -> Stored:
    return Stored(str(blob.name), int(blob.size), str(blob.crc32c), int(blob.generation or 0))


def _reason(error: Any) -> str:
    """Return Google's own words, which are in the answer's body."""
    try:
        return _one_line(json.loads(error.response.text)["error"]["message"])
    except (AttributeError, KeyError, TypeError, ValueError):
        return _one_line(error.message)


def _cause(error: Any) -> object:
    """Return what the last try ended with."""
    return error.cause


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:300]
