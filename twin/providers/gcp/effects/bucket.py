"""Buckets and objects in fake-gcs-server."""

import io
import shutil
import urllib.parse
import zipfile
from pathlib import Path

from twin.host.paths import REPOSITORY, TwinPaths
from twin.providers.gcp.effects import gcs
from twin.providers.gcp.effects.base import Effect, World
from twin.providers.gcp.iam import endpoint
from twin.providers.gcp.resources.buckets import check_bucket
from twin.providers.gcp.resources.refusals import check_empty
from twin.wire.property_values import SIGNATURE_KEY, CloudError, Json, as_object, get_path
from twin.world.store import Record


class BucketEffect(Effect):
    """A bucket that programs can read and write."""

    def create(self, world: World, record: Record) -> Json:
        """Create the bucket."""
        gcs.create_bucket(world.paths, record.name, record.project)
        endpoint.start(world.paths)  # before the first pod, which would wait for it
        return {}

    def update(self, world: World, record: Record, outputs: Json) -> Json:
        """Check the new settings."""
        del world, record
        check_bucket(outputs)
        return {}

    def check_delete(self, world: World, record: Record) -> None:
        """Reject the deletion while the bucket has objects, unless `forceDestroy` is set."""
        is_held = get_path(record.outputs, "retentionPolicy.retentionPeriod") is not None
        if is_held or record.outputs.get("forceDestroy") is not True:
            objects = sum(1 for _ in gcs.objects(world.paths, record.name))
            found = objects + _count_mounted(world.paths, record.name)
            if is_held and found:
                text = f"Object in {record.name} is subject to bucket's retention policy and cannot"
                raise CloudError(
                    403, f"{text} be deleted until it expires.", "retentionPolicyNotMet"
                )
            check_empty(record, found)

    def delete(self, world: World, record: Record) -> None:
        """Delete the bucket and its remaining objects."""
        gcs.delete_bucket(world.paths, record.name)
        _remove_mounted(world.paths, record.name)

    def exists(self, world: World, record: Record) -> bool:
        """Return whether the bucket still exists in the object storage."""
        return gcs.has_bucket(world.paths, record.name)


class BucketObjectEffect(Effect):
    """An object with content from the program."""

    def create(self, world: World, record: Record) -> Json:
        """Upload the content."""
        return self._upload(world, record, record.outputs)

    def update(self, world: World, record: Record, outputs: Json) -> Json:
        """Upload the new content."""
        return self._upload(world, record, outputs)

    def delete(self, world: World, record: Record) -> None:
        """Delete the object."""
        gcs.delete_object(world.paths, str(record.outputs["bucket"]), record.name)

    def exists(self, world: World, record: Record) -> bool:
        """Return whether the object is still in its bucket."""
        return gcs.has_object(world.paths, str(record.outputs["bucket"]), record.name)

    @staticmethod
    def _upload(world: World, record: Record, values: Json) -> Json:
        body = content_of(values)
        kind = str(values.get("contentType") or "text/plain; charset=utf-8")
        answer = gcs.upload(world.paths, str(values["bucket"]), record.name, body, kind)
        found = {"md5hash": answer.get("md5Hash"), "crc32c": answer.get("crc32c")}
        return {key: value for key, value in found.items() if value}


def content_of(values: Json) -> bytes:
    """Return the bytes of an object: its `content` or its `source` asset.

    Raises:
        CloudError: the file does not exist, or the twin cannot read this kind of asset.
    """
    content = values.get("content")
    if isinstance(content, str):
        return content.encode()
    asset = as_object(values.get("source")) or {}
    if "assets" in asset:
        return _zip_assets(as_object(asset["assets"]) or {})
    if "text" in asset:
        return str(asset["text"]).encode()
    path = asset.get("path")
    if path is None and str(asset.get("uri", "")).startswith("file://"):
        path = urllib.parse.urlparse(str(asset["uri"])).path
    if path is None:
        raise CloudError(400, "source must be a file, a text or an archive of those", "invalid")
    return _read(str(path))


def _read(path: str) -> bytes:
    for base in (Path(), REPOSITORY, REPOSITORY / "infra"):
        file = base / path
        if file.is_file():
            return file.read_bytes()
        if file.is_dir():
            return _zip_folder(file)
    raise CloudError(400, f"source: no file {path}; an absolute path always works", "invalid")


def _zip_folder(folder: Path) -> bytes:
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return _zip({str(file.relative_to(folder)): file.read_bytes() for file in files})


def _zip_assets(assets: Json) -> bytes:
    items = {name: as_object(asset) or {} for name, asset in assets.items()}
    return _zip(
        {
            name: content_of({"source": asset})
            for name, asset in items.items()
            if SIGNATURE_KEY in asset
        }
    )


def _zip(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name), content)
    return buffer.getvalue()


def _mounted(paths: TwinPaths, bucket: str) -> Path:
    """Return the folder of a mounted bucket, outside the object storage."""
    return paths.volumes / "buckets" / bucket


def _count_mounted(paths: TwinPaths, bucket: str) -> int:
    """Return the number of objects that pods have written to a bucket."""
    return sum(1 for file in _mounted(paths, bucket).rglob("*") if file.is_file())


def _remove_mounted(paths: TwinPaths, bucket: str) -> None:
    """Remove the files that pods have written to a bucket, if any."""
    shutil.rmtree(_mounted(paths, bucket), ignore_errors=True)
