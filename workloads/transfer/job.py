"""The job in a cluster, from the hub to a folder to buckets, configured by a JSON file."""

import json
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, cast

from workloads.engine.weights_manifest import MANIFEST_NAME, Manifest, version_of
from workloads.transfer import hub
from workloads.transfer.errors import Refused, TransferError
from workloads.transfer.push import push
from workloads.transfer.source import hash_files, scan
from workloads.transfer.store import Store, fetch
from workloads.transfer.versions import Home, now, read_current, set_current
from workloads.transfer.work import Crew

_WORKERS: Final = 16
_SAY_SECONDS: Final = 10.0
_SECRETS: Final = "https://secretmanager.googleapis.com/v1"


@dataclass(frozen=True)
class JobSpec:
    """Specification of one run."""

    buckets: list[str]
    exclude: list[str]
    folder: str
    makes_current: bool
    project: str
    repository: str
    revision: str
    target: str
    """Folder that gets the files: of a disk, its root."""
    token_secret: str | None
    version: str | None

    @classmethod
    def parse(cls, text: str) -> "JobSpec":
        """Return the spec that a file holds.

        Raises:
            Refused: It has other fields.
        """
        content: Any = json.loads(text)
        wanted = {field.name for field in fields(cls)}
        if not isinstance(content, dict) or set(cast("dict[str, Any]", content)) != wanted:
            raise Refused(f"spec: must have the fields {', '.join(sorted(wanted))}")
        return cls(**cast("dict[str, Any]", content))


class LogLines:
    """Progress as lines that Cloud Logging reads: one JSON object each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._title, self._total, self._done, self._first = "", 0, 0, 0
        self._begun = self._said = time.monotonic()

    def begin(self, title: str, total: int, done: int = 0) -> None:
        """Begin a stage of `total` bytes, of which `done` need no work."""
        with self._lock:
            self._title, self._total, self._done, self._first = title, total, done, done
            self._begun = self._said = time.monotonic()
        self.say(title, bytes=done, bytes_expected=total)

    def add(self, count: int) -> None:
        """Count bytes that are done."""
        with self._lock:
            self._done += count
            now_seconds = time.monotonic()
            if now_seconds - self._said < _SAY_SECONDS:
                return
            self._said = now_seconds
            rate = (self._done - self._first) / (now_seconds - self._begun)
            left = round((self._total - self._done) / rate) if rate else None
            values = (self._title, self._done, self._total, round(rate), left)
        title, done, total, speed, eta = values
        self.say(title, bytes=done, bytes_expected=total, bytes_per_second=speed, eta_seconds=eta)

    def say(self, line: str, severity: str = "INFO", **values: int | None) -> None:
        """Write a line."""
        entry = {"severity": severity, "message": line, "logger": "weights", **values}
        print(json.dumps(entry), flush=True)  # noqa: T201 - a container's log is its output


def run(spec: JobSpec, store: Store, token: hub.Token | None, progress: LogLines) -> str:
    """Transfer a model from the hub to its folder and to every bucket; return the version.

    Raises:
        TransferError: The hub or a bucket refuses.
    """
    crew, target = Crew(_WORKERS), Path(spec.target)
    homes = [Home(bucket, spec.folder) for bucket in spec.buckets]
    for home in homes:
        store.check_bucket(home.bucket)
    hub.download(spec.repository, spec.revision, token, target, spec.exclude)
    shutil.rmtree(target / ".cache", ignore_errors=True)  # the hub's notes on its downloads
    files = scan(target, [*spec.exclude, MANIFEST_NAME, "lost+found/*"])
    entries = tuple(hash_files(files, crew, progress))
    manifest = Manifest(spec.folder, spec.version or version_of(entries), now(), entries)
    push(store, homes, files, manifest, crew, progress)
    for home in homes:
        if spec.makes_current or read_current(store, home) is None:
            set_current(store, home, manifest.version)
    (target / MANIFEST_NAME).write_text(manifest.dump())
    return manifest.version


def read_token(project: str, secret: str, get: Callable[[str], Any] = fetch) -> hub.Token:
    """Return the hub's token from Secret Manager.

    Raises:
        TransferError: The secret cannot be read; the message never has what it holds.
    """
    name = f"projects/{project}/secrets/{secret}/versions/latest"
    answer = get(f"{_SECRETS}/{name}:access")
    try:
        return hub.decode_token(answer["payload"]["data"])
    except (KeyError, TypeError, ValueError):
        raise TransferError(f"{name}: must hold a token as text") from None


def main(file: str) -> int:
    """Run the job of a spec file; return the exit status."""
    progress = LogLines()
    try:
        spec = JobSpec.parse(Path(file).read_text())
        store = Store(spec.project, workers=_WORKERS)
        token = None
        if spec.token_secret is not None:
            token = read_token(spec.project, spec.token_secret)
        version = run(spec, store, token, progress)
    except TransferError as error:
        progress.say(str(error), "ERROR")
        return 1
    progress.say(f"{spec.folder}, version {version}: complete in {', '.join(spec.buckets)}")
    return 0
