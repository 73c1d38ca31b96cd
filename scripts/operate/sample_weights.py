"""Small sample weights for models on the twin, uploaded in the same way as by `models push`.

They are a real model with a million parameters in safetensors, with a tokenizer. The twin runs
simulated engines, whose speed depends on the model's name. The servers wait for weights as on
Google Cloud, and check the contents of the bucket.
"""

import shutil
import tempfile
import threading
import warnings
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from infra.plan import Plan
from infra.stack import Task
from scripts.terminal.console import CommandError
from twin.host.paths import REPOSITORY, TwinPaths
from twin.providers.gcp.effects import gcs
from twin.world.disk_contents import snapshot_folder

if TYPE_CHECKING:
    from workloads.transfer.versions import Home

FOLDER = REPOSITORY / "build" / "models" / "sample"
_CLASSIFIER = REPOSITORY / "docs/examples/predictive/weights/models/fraud"
_HASHES = REPOSITORY / "build" / "models" / "hashes.json"
_LOOK_SECONDS = 0.2
_WORKERS = 4


class SampleWeights(threading.Thread):
    """Pushes sample weights during a deployment, to each bucket as soon as it exists.

    Existing weights and adapters are not changed.

    Args:
        plan: The stack.
        paths: The twin.
    """

    def __init__(self, plan: Plan, paths: TwinPaths) -> None:
        super().__init__(daemon=True, name="sample-weights")
        self._plan = plan
        self._paths = paths
        self._ended = threading.Event()
        self._problem = ""
        self._doing = "not begun"
        self.pushed = set[str]()
        """Folders of models and adapters whose weights were pushed."""

    def stop(self) -> None:
        """Stop after a failed deployment, whose buckets may never exist."""
        self._ended.set()
        self.join()

    def finish(self, seconds: float) -> None:
        """Wait until everything is pushed.

        Raises:
            CommandError: A push failed, or a bucket was not created.
        """
        self.join(seconds)
        if self.is_alive():
            self.stop()
            raise CommandError(f"weights: not pushed within {seconds:.0f} s: {self._doing}")
        if self._problem:
            raise CommandError(f"weights: {self._problem}")

    def run(self) -> None:
        """Push to every bucket of the stack."""
        # Google's client takes a second to load, here in parallel with the deployment. It warns
        # about future Python versions; warning filters are not per thread.
        warnings.filterwarnings("ignore", category=FutureWarning, module="google")
        try:
            self._push()
        except Exception as error:  # noqa: BLE001 - `finish` reports it where someone looks
            self._problem = str(error) or type(error).__name__

    def _push(self) -> None:
        from scripts.models.places import targets  # noqa: PLC0415
        from scripts.prerequisites.wanted import snapshots  # noqa: PLC0415
        from workloads.engine.weights_manifest import split  # noqa: PLC0415

        for snapshot, (name, _) in snapshots(self._plan).items():
            folder, version = split(self._plan.platform.models[name].weights)
            write_snapshot(self._paths, snapshot, folder, version, is_video=self._is_video(name))
        own = {region.model_bucket for region in self._plan.storage.regions.values()}
        # adapters first: a model that has its weights waits for them
        for target in sorted(targets(self._plan).values(), key=lambda each: not each.is_adapter):
            for home in target.homes:
                if not self._has_bucket(home, own):
                    return
                self._doing = f"sending to {home.uri}"
                version = push_sample(
                    self._paths,
                    home,
                    target.version,
                    is_adapter=target.is_adapter,
                    is_video=self._is_video(target.name),
                    predicts=self._predicts(target.name),
                )
                if version is not None:
                    self.pushed.add(target.name)

    def _is_video(self, target: str) -> bool:
        model = self._plan.platform.models.get(target)
        return model is not None and model.task is Task.VIDEO

    def _predicts(self, target: str) -> str | None:
        """Return the name that clients use for a predictive model, or None for another one."""
        for every in self._plan.models.values():
            for served in every:
                if served.name == target and served.settings.task is Task.PREDICT:
                    return served.served_name
        return None

    def _has_bucket(self, home: "Home", own: set[str]) -> bool:
        """Wait for a bucket; create one that no stack creates, since a real project has it."""
        while not self._ended.is_set():
            with suppress(OSError):  # the process starts before the server listens
                if gcs.runs(self._paths):
                    if gcs.has_bucket(self._paths, home.bucket):
                        return True
                    if home.bucket not in own:
                        gcs.create_bucket(self._paths, home.bucket, self._plan.project.id)
                        continue
            self._doing = f"{home.uri} does not exist"
            self._ended.wait(_LOOK_SECONDS)
        return False


def made_whole(folder: Path, write: Callable[[Path], object]) -> Path:
    """Return a folder, after writing it beside its place if it is missing.

    Several twins of a checkout share the samples: none reads a file that another one writes.
    """
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
            written = Path(beside) / folder.name
            write(written)
            try:
                written.rename(folder)
            except OSError:
                if not folder.is_dir():  # else another twin was faster
                    raise
    return folder


def push_sample(
    paths: TwinPaths,
    home: "Home",
    version: str | None = None,
    *,
    is_adapter: bool = False,
    is_video: bool = False,
    predicts: str | None = None,
) -> str | None:
    """Push the sample or an adapter of it to a bucket, and make it current if no version was named.

    That of a video model has the file by which the image server recognizes Wan 2.1. That of a
    predictive model, whose name `predicts` is, has the classifier of the example.

    Returns:
        The version; None if the bucket already has weights.

    Raises:
        TransferError: The bucket cannot be written.
    """
    from twin.engines.real.tiny_model import write_adapter, write_model  # noqa: PLC0415
    from workloads.engine.weights_manifest import (  # noqa: PLC0415
        ADAPTER_CONFIG,
        Manifest,
        version_of,
    )
    from workloads.transfer.push import push  # noqa: PLC0415
    from workloads.transfer.source import HashCache, hash_files, scan  # noqa: PLC0415
    from workloads.transfer.store import Store  # noqa: PLC0415
    from workloads.transfer.versions import now, read_current, set_current  # noqa: PLC0415
    from workloads.transfer.work import Crew, Silent  # noqa: PLC0415

    store = Store("twin", endpoint=gcs.url(paths), workers=_WORKERS)
    if version is None and read_current(store, home) is not None:
        return None
    if is_adapter:
        if gcs.has_object(paths, home.bucket, f"{home.folder}/{ADAPTER_CONFIG}"):
            return None  # without versions
        name = home.folder.rpartition("/")[2]
        seed = zlib.crc32(name.encode())
        adapters = FOLDER.parent / "adapters"
        folder = made_whole(adapters / name, lambda beside: write_adapter(beside, seed=seed))
    elif predicts is not None:
        repository = FOLDER.parent / "predictive" / predicts
        folder = made_whole(repository, lambda beside: _write_classifier(beside, predicts))
    elif is_video:
        folder = made_whole(FOLDER.parent / "video", _write_video_model)
    else:
        folder = made_whole(FOLDER, write_model)
    files = scan(folder, ())
    crew, progress = Crew(_WORKERS), Silent()
    entries = tuple(hash_files(files, crew, progress, HashCache(_HASHES)))
    chosen = version or version_of(entries)
    manifest = Manifest(home.folder, chosen, now(), entries)
    sent = push(store, [home], files, manifest, crew, progress)
    if version is None:
        set_current(store, home, chosen)
    return chosen if sent.buckets else None


def write_snapshot(
    paths: TwinPaths, snapshot: str, model: str, version: str | None, *, is_video: bool = False
) -> None:
    """Write the sample to a snapshot of the twin, as a version at its root.

    A snapshot with files is not changed.

    Args:
        paths: The twin.
        snapshot: `projects/P/global/snapshots/NAME`.
        model: Folder of the model's weights, which the manifest names.
        version: Version that the stack names, or None for any.
        is_video: Whether the model generates videos.
    """
    from workloads.engine.weights_manifest import (  # noqa: PLC0415
        MANIFEST_NAME,
        Manifest,
        version_of,
    )
    from workloads.transfer.source import HashCache, hash_files, scan  # noqa: PLC0415
    from workloads.transfer.versions import now  # noqa: PLC0415
    from workloads.transfer.work import Crew, Silent  # noqa: PLC0415

    def write(beside: Path) -> None:
        if is_video:
            _write_video_model(beside)
        else:
            write_model(beside)
        files = scan(beside, ())
        entries = tuple(hash_files(files, Crew(_WORKERS), Silent(), HashCache(_HASHES)))
        manifest = Manifest(model, version or version_of(entries), now(), entries)
        (beside / MANIFEST_NAME).write_text(manifest.dump())

    from twin.engines.real.tiny_model import write_model  # noqa: PLC0415

    made_whole(snapshot_folder(paths, "", snapshot), write)


def _write_video_model(folder: Path) -> None:
    from twin.engines.real.tiny_model import write_model  # noqa: PLC0415 - as above

    write_model(folder)
    denoiser = folder / "transformer"
    denoiser.mkdir()
    (denoiser / "config.json").write_text('{"_class_name": "WanTransformer3DModel"}\n')


def _write_classifier(folder: Path, name: str) -> None:
    shutil.copytree(_CLASSIFIER, folder / "models" / name)
