"""The bucket, through Google's client; a write can require the generation that it replaces."""

import asyncio
import functools
import io
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import requests.adapters

from .google_imports import without_warnings

with without_warnings():
    import google.api_core.exceptions as api_errors
    import google.auth.exceptions
    from google.cloud import storage
    from google.cloud.storage.exceptions import (
        DataCorruption,
    )
    from google.cloud.storage.retry import (
        DEFAULT_RETRY,
    )

from .pieces import Piece, contents_of

_SECONDS: Final = (10, 120)  # to connect, and between two packets
_THREADS: Final = 24
_READS: Final = 3
_PIECE: Final = 4 * 2**20
_CHUNK: Final = 8 * 2**20
_BUFFER: Final = 2**16
_MOST_COMPOSED: Final = 32  # cloud.google.com/storage/docs/composite-objects
_MOST_DELETED: Final = 16  # at once
_T = TypeVar("_T")
_retry: Any = DEFAULT_RETRY.with_timeout(60.0)


class BucketError(Exception):
    """Cloud Storage cannot be used; the message is one line."""


class Gone(BucketError):
    """The object does not exist."""


def reason(error: Exception) -> str:
    """Return the text of an error for a log; foreign errors may repeat a prompt."""
    return str(error) if isinstance(error, BucketError) else type(error).__name__


class Changed(Exception):
    """Another writer changed the object: it has another generation."""


@dataclass(frozen=True)
class Entry:
    """An object, without its content."""

    name: str
    generation: int
    size: int
    metadata: dict[str, str]


class Bucket:
    """Objects of one bucket. A retried write may raise `Changed` because of its first attempt."""

    def __init__(self, name: str) -> None:
        """Open the bucket with the pod's own identity, or the emulator's without one.

        Raises:
            BucketError: There is no identity.
        """
        try:
            client: Any = storage.Client()
        except (google.auth.exceptions.GoogleAuthError, OSError) as error:
            raise BucketError(f"Cloud Storage: {type(error).__name__}") from error
        adapter = requests.adapters.HTTPAdapter(pool_connections=2, pool_maxsize=_THREADS)
        for scheme in ("https://", "http://"):
            client._http.mount(scheme, adapter)  # it has no other way in
        self._client = client
        self._bucket: Any = client.bucket(name)
        self._threads = ThreadPoolExecutor(_THREADS, "bucket")

    async def read(self, name: str) -> tuple[bytes, int] | None:
        """Return content and generation of an object, or None if it does not exist."""
        return await self._run(self._read, name)

    def _read(self, name: str) -> tuple[bytes, int] | None:
        for attempt in range(1, _READS + 1):
            blob = self._bucket.blob(name)
            try:
                found: bytes = blob.download_as_bytes(timeout=_SECONDS, retry=_retry)
            except api_errors.NotFound:
                return None
            except DataCorruption:  # written while it was read
                if attempt == _READS:
                    raise
                continue
            return found, int(blob.generation)
        return None

    async def read_range(self, name: str, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to `end`.

        Raises:
            Gone: There is no such object.
        """
        if start >= end:
            return b""
        return await self._run(self._range, name, start, end)

    def _range(self, name: str, start: int, end: int) -> bytes:
        return self._bucket.blob(name).download_as_bytes(
            start=start, end=end - 1, timeout=_SECONDS, retry=_retry
        )

    async def stream(self, name: str, size: int) -> AsyncIterator[bytes]:
        """Yield an object of `size` bytes piece by piece."""
        for start in range(0, size, _PIECE):
            yield await self.read_range(name, start, min(size, start + _PIECE))

    def lines(self, name: str, longest: int = -1) -> Iterator[bytes]:
        """Yield the lines of an object, with their ends; for a thread.

        Args:
            name: Name of the object.
            longest: Maximum bytes of a line. A longer line is cut one byte after this.

        Raises:
            Gone: There is no such object.
        """
        blob = self._bucket.blob(name)
        try:
            # the client's own reader looks for the end of a line byte by byte
            with (
                blob.open("rb", chunk_size=_PIECE, timeout=_SECONDS) as raw,
                io.BufferedReader(raw, _BUFFER) as file,
            ):
                while line := file.readline(longest + 1 if longest >= 0 else -1):
                    yield line
                    if 0 <= longest < len(line):
                        return
        except api_errors.NotFound:
            raise Gone("Cloud Storage: NotFound") from None
        except (api_errors.GoogleAPIError, OSError) as error:
            raise BucketError(f"{name}: {type(error).__name__}") from error

    async def entry(self, name: str) -> Entry | None:
        """Return an object's description, or None if it does not exist."""
        found = await self._run(lambda: self._bucket.get_blob(name, timeout=_SECONDS, retry=_retry))
        return None if found is None else _entry(found)

    async def entries(self, prefix: str) -> list[Entry]:
        """Return the objects whose name has a prefix, by name."""

        def found() -> list[Entry]:
            blobs: Any = self._client.list_blobs(
                self._bucket, prefix=prefix, timeout=_SECONDS, retry=_retry
            )
            return sorted((_entry(blob) for blob in blobs), key=lambda each: each.name)

        return await self._run(found)

    async def write(
        self,
        name: str,
        content: bytes,
        *,
        generation: int | None = None,
        kind: str = "application/json",
        metadata: dict[str, str] | None = None,
    ) -> int:
        """Write an object and return its generation.

        Args:
            name: Name of the object.
            content: Content of the object.
            generation: Generation to replace; 0 if there must be none; by default any.
            kind: Content type.
            metadata: Short strings that a listing returns.

        Raises:
            Changed: There is another generation.
        """

        def write() -> int:
            blob = self._bucket.blob(name)
            blob.metadata = metadata
            blob.upload_from_string(
                content,
                content_type=kind,
                if_generation_match=generation,
                timeout=_SECONDS,
                retry=_retry,
            )
            return int(blob.generation)

        return await self._run(write)

    async def join(self, name: str, pieces: Sequence[Piece]) -> None:
        """Create one object from pieces of others, in order, without loading all of it."""

        def join() -> None:
            blob = self._bucket.blob(name)
            kind = "application/json"
            with blob.open(
                "wb", chunk_size=_PIECE, content_type=kind, timeout=_SECONDS, retry=_retry
            ) as file:
                for content in contents_of(pieces, self._range):
                    file.write(content)

        await self._run(join)

    async def upload(
        self,
        name: str,
        file: Path,
        metadata: dict[str, str],
        kind: str = "application/jsonl",
    ) -> None:
        """Write an object from a file, in pieces. A cancelled upload leaves no object.

        Raises:
            Changed: The object exists.
        """
        stopped = threading.Event()

        def write() -> None:
            blob = self._bucket.blob(name)
            blob.chunk_size = _CHUNK  # the client's own is 100 MiB, sent again as a whole
            blob.metadata = metadata
            with _Stoppable(file, stopped) as content:
                blob.upload_from_file(
                    content,
                    content_type=kind,
                    if_generation_match=0,
                    retry=_retry,
                    size=file.stat().st_size,
                    timeout=_SECONDS,
                )

        try:
            await self._run(write)
        except asyncio.CancelledError:
            stopped.set()
            raise

    async def compose(
        self, names: Sequence[str], target: str, scratch: str, metadata: dict[str, str]
    ) -> None:
        """Create one object from others, in order, with temporary objects below `scratch`."""
        level, at = 0, list(names)
        while len(at) > _MOST_COMPOSED:
            groups = [at[i : i + _MOST_COMPOSED] for i in range(0, len(at), _MOST_COMPOSED)]
            at = [f"{scratch}/{level}-{number:04d}" for number in range(len(groups))]
            await asyncio.gather(
                *(self._composed(some, name, {}) for some, name in zip(groups, at, strict=True))
            )
            level += 1
        await self._composed(at, target, metadata)

    async def _composed(self, names: list[str], target: str, metadata: dict[str, str]) -> None:
        def compose() -> None:
            blob = self._bucket.blob(target)
            blob.content_type = "application/jsonl"
            blob.metadata = metadata
            sources = [self._bucket.blob(name) for name in names]
            blob.compose(sources, timeout=_SECONDS, retry=_retry)

        await self._run(compose)

    async def delete(self, name: str) -> None:
        """Delete an object; a missing object is not an error."""

        def delete() -> None:
            try:
                self._bucket.blob(name).delete(timeout=_SECONDS, retry=_retry)
            except api_errors.NotFound:
                return

        await self._run(delete)

    async def delete_all(self, prefix: str) -> None:
        """Delete every object whose name has a prefix."""
        names = [each.name for each in await self.entries(prefix)]
        for start in range(0, len(names), _MOST_DELETED):
            some = names[start : start + _MOST_DELETED]
            await asyncio.gather(*(self.delete(name) for name in some))

    async def _run(self, call: Callable[..., _T], *arguments: Any) -> _T:
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, functools.partial(call, *arguments))
        except api_errors.PreconditionFailed:
            raise Changed from None
        except api_errors.NotFound:
            raise Gone("Cloud Storage: NotFound") from None
        except (
            api_errors.GoogleAPIError,
            google.auth.exceptions.GoogleAuthError,
            DataCorruption,
            OSError,
        ) as error:
            kind: Any = type(error)
            raise BucketError(f"Cloud Storage: {kind.__name__}") from error

    async def run_in_thread(self, call: Callable[..., _T], *arguments: Any) -> _T:
        """Run a reader of `lines` in a separate thread."""
        return await self._run(call, *arguments)


class _Stoppable(io.BufferedReader):
    """A file that ends its upload between two pieces, before the object exists."""

    def __init__(self, file: Path, stopped: threading.Event) -> None:
        super().__init__(io.FileIO(file))
        self._stopped = stopped

    def read(self, size: int | None = -1, /) -> bytes:
        if self._stopped.is_set():
            raise OSError("cancelled")
        return super().read(size)


def _entry(blob: Any) -> Entry:
    metadata: dict[str, str] = dict(blob.metadata or {})
    return Entry(
        name=str(blob.name),
        generation=int(blob.generation or 0),
        size=int(blob.size or 0),
        metadata=metadata,
    )
