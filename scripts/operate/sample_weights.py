"""Small weights for the models of a stack on the twin, pushed as `models push` pushes large ones.

They are a real model of a million parameters in safetensors, with a tokenizer. The twin runs
simulated engines, which take their speed from the model's name; but the servers wait for weights as
they do on Google Cloud, and look at what is in the bucket.
"""

import threading
import warnings
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

from infra.plan import resolve
from infra.plan.names import Names
from infra.stack import Platform
from scripts.terminal.console import CommandError
from twin.host.paths import REPOSITORY, TwinPaths
from twin.providers.gcp.effects import gcs

if TYPE_CHECKING:
    from workloads.transfer.versions import Home

FOLDER = REPOSITORY / "build" / "models" / "sample"
_HASHES = REPOSITORY / "build" / "models" / "hashes.json"
_LOOK_SECONDS = 0.2
_WORKERS = 4


class SampleWeights(threading.Thread):
    """Pushes sample weights beside a deployment, into each bucket as soon as it exists.

    Weights and adapters that are there stay as they are.

    Args:
        platform: The stack.
        paths: The twin.
    """

    def __init__(self, platform: Platform, paths: TwinPaths) -> None:
        super().__init__(daemon=True, name="sample-weights")
        self._platform = platform
        self._paths = paths
        self._ended = threading.Event()
        self._problem = ""
        self._doing = "not begun"
        self.lines: list[str] = []
        """What was pushed, for the user."""

    def stop(self) -> None:
        """End it; the deployment failed, and buckets may never come."""
        self._ended.set()
        self.join()

    def finish(self, seconds: float) -> None:
        """Wait until everything is pushed.

        Raises:
            CommandError: A push failed, or a bucket never came.
        """
        self.join(seconds)
        if self.is_alive():
            self.stop()
            raise CommandError(f"weights: not pushed within {seconds:.0f} s: {self._doing}")
        if self._problem:
            raise CommandError(f"weights: {self._problem}")

    def run(self) -> None:
        """Push to every bucket of the stack."""
        # Google's client takes a second to load: here it does beside the deployment. It warns of
        # Pythons that it will drop, years ahead, and filters are not a thread's own.
        warnings.filterwarnings("ignore", category=FutureWarning, module="google")
        from workloads.transfer.errors import TransferError  # noqa: PLC0415

        try:
            self._push()
        except (TransferError, OSError, ValueError) as error:
            self._problem = str(error)

    def _push(self) -> None:
        from scripts.models.places import targets  # noqa: PLC0415

        plan = resolve(self._platform)
        own = {Names(self._platform).bucket("models", region) for region in plan.regions}
        for target in targets(plan).values():
            for home in target.homes:
                if not self._has_bucket(home, own):
                    return
                self._doing = f"sending to {home.uri}"
                model = self._platform.models.get(target.name)
                for name in () if model is None else model.adapters:
                    push_adapter(self._paths, home, name)
                version = push_sample(self._paths, home, target.version)
                if version is not None:
                    self.lines.append(f"{target.name}, version {version}, to {home.uri}")

    def _has_bucket(self, home: "Home", own: set[str]) -> bool:
        """Wait for a bucket; one that no stack makes exists in a real project, and is made."""
        while not self._ended.is_set():
            with suppress(OSError):  # the server has a process before it listens
                if gcs.port_of(self._paths) is not None:
                    if gcs.has_bucket(self._paths, home.bucket):
                        return True
                    if home.bucket not in own:
                        gcs.create_bucket(self._paths, home.bucket, self._platform.project)
                        continue
            self._doing = f"{home.uri} does not exist"
            self._ended.wait(_LOOK_SECONDS)
        return False


def push_sample(paths: TwinPaths, home: "Home", version: str | None = None) -> str | None:
    """Push the sample to a bucket as a version, and make it current if none was named.

    Returns:
        The version; None where the bucket has weights already.

    Raises:
        TransferError: The bucket cannot be written.
    """
    from twin.engines.real.tiny_model import write_model  # noqa: PLC0415
    from workloads.engine.weights_manifest import Manifest, version_of  # noqa: PLC0415
    from workloads.transfer.push import push  # noqa: PLC0415
    from workloads.transfer.source import HashCache, hash_files, scan  # noqa: PLC0415
    from workloads.transfer.store import Store  # noqa: PLC0415
    from workloads.transfer.versions import now, read_current, set_current  # noqa: PLC0415
    from workloads.transfer.work import Crew, Silent  # noqa: PLC0415

    store = Store("twin", endpoint=gcs.url(paths), workers=_WORKERS)
    if version is None and read_current(store, home) is not None:
        return None
    files = scan(write_model(FOLDER), ())
    crew, progress = Crew(_WORKERS), Silent()
    entries = tuple(hash_files(files, crew, progress, HashCache(_HASHES)))
    name = version or version_of(entries)
    manifest = Manifest(home.folder, name, now(), entries)
    sent = push(store, [home], files, manifest, crew, progress)
    if version is None:
        set_current(store, home, name)
    return name if sent.buckets else None


def push_adapter(paths: TwinPaths, home: "Home", name: str) -> None:
    """Write an adapter of the sample beside a model's versions, where there is none."""
    from twin.engines.real.tiny_model import write_adapter  # noqa: PLC0415

    folder = f"{home.folder}/adapters/{name}"
    if gcs.has_object(paths, home.bucket, f"{folder}/adapter_config.json"):
        return
    made = write_adapter(FOLDER.parent / "adapters" / name, seed=zlib.crc32(name.encode()))
    for file in sorted(made.iterdir(), reverse=True):
        place, kind = f"{folder}/{file.name}", "application/octet-stream"
        gcs.upload(paths, home.bucket, place, file.read_bytes(), kind)
