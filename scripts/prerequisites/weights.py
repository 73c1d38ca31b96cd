"""Weights in the bucket of each region that serves a model: pointer, manifest, and every file."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote

from infra.plan import ServedModel
from infra.plan.names import bucket_in
from scripts.prerequisites.finding import Finding, Project, State, judged
from scripts.shared.google_cloud import NotFound
from workloads.engine.weights_manifest import (
    ADAPTER_CONFIG,
    CURRENT_NAME,
    MANIFEST_NAME,
    Current,
    Manifest,
    adapter_folder,
    split,
)

_STORAGE: Final = "storage.googleapis.com/storage/v1/b"
_SHOWN: Final = 3


class _Incomplete(Exception):
    """Weights that no server may read; the message has the reason."""


def weights(project: Project) -> Iterator[Finding]:
    """Yield whether each model's weights are complete in each region that serves it."""
    seen: set[str] = set()
    for served in project.plan.models.values():
        for each in served:
            if each.settings.disk is None and each.weights not in seen:
                seen.add(each.weights)
                yield _finding(project, each)


def _push(project: Project, model: str) -> str:
    """Return the command that uploads the weights of a model or an adapter."""
    stack = f"--stack {project.stack}{project.where.option}"
    return f"gke-inference models push {stack} --model {model} FOLDER"


def _finding(project: Project, served: ServedModel) -> Finding:
    subject = "weights"
    name = f"{served.name} in {served.region}"
    path, version = split(served.weights.removeprefix("gs://"))
    bucket, _, folder = path.partition("/")
    command = _push(project, served.name)

    def look() -> Finding:
        exists = project.plan.regions[served.region].settings.existing.bucket is not None
        is_own = not exists and bucket_in(served.settings.weights) is None
        try:
            project.cloud.get(f"{_STORAGE}/{bucket}")
        except NotFound:
            if is_own:
                says = f"`up` creates the bucket {bucket}; push the weights afterwards"
                return Finding(subject, name, State.LATER, says, command)
            return Finding(subject, name, State.MISSING, f"there is no bucket {bucket}")
        try:
            manifest = _manifest(project, bucket, folder, version)
            _check_files(project, bucket, f"{folder}/{manifest.version}/", manifest)
        except _Incomplete as error:
            return Finding(subject, name, State.MISSING, str(error), command)
        says = f"version {manifest.version}, {len(manifest.files)} files, {_size(manifest.size)}"
        return Finding(subject, name, State.MET, says)

    return judged(project, subject, name, look)


def _manifest(project: Project, bucket: str, folder: str, version: str | None) -> Manifest:
    """Return the manifest of a version, or of the current one.

    Raises:
        _Incomplete: There is none, or it has another form.
        CloudError: Google refuses.
    """
    where = f"{folder}/{CURRENT_NAME}"
    try:
        if version is None:
            version = Current.parse(_text(project, bucket, where)).version
        where = f"{folder}/{version}/{MANIFEST_NAME}"
        return Manifest.parse(_text(project, bucket, where))
    except NotFound:
        raise _Incomplete(f"there is no {where} in {bucket}") from None
    except ValueError as error:
        raise _Incomplete(f"{where}: {error}") from None


def _text(project: Project, bucket: str, name: str) -> str:
    return json.dumps(
        project.cloud.get(f"{_STORAGE}/{bucket}/o/{quote(name, safe='')}", alt="media")
    )


def _check_files(project: Project, bucket: str, prefix: str, manifest: Manifest) -> None:
    """Check that the bucket has every file of a manifest unchanged.

    Raises:
        _Incomplete: A file is missing or differs.
        CloudError: Google refuses.
    """
    listed = project.cloud.pages(
        f"{_STORAGE}/{bucket}/o",
        "items",
        prefix=prefix,
        fields="items(name,size,crc32c),nextPageToken",
    )
    has: dict[str, Mapping[str, Any]] = {
        str(each["name"]).removeprefix(prefix): each for each in listed
    }
    wrong = [
        file.name
        for file in manifest.files
        if int(has.get(file.name, {}).get("size", -1)) != file.size
        or has[file.name].get("crc32c") != file.crc32c
    ]
    if wrong:
        more = f" and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        names = ", ".join(wrong[:_SHOWN])
        raise _Incomplete(
            f"version {manifest.version}: {names}{more} must be in the bucket as the manifest says"
        )


def adapters(project: Project) -> Iterator[Finding]:
    """Yield whether the adapters of each model are next to its weights."""
    for served in project.plan.models.values():
        for each in served:
            for adapter in each.settings.adapters if each.version is None else ():
                yield _adapter(project, each, adapter)


def _adapter(project: Project, served: ServedModel, adapter: str) -> Finding:
    path, _ = split(served.weights.removeprefix("gs://"))
    bucket, _, model = path.partition("/")
    folder = adapter_folder(model, adapter)
    subject, name = "adapter", f"{adapter} of {served.name} in {served.region}"
    pushed = adapter_folder(served.name, adapter)
    command = _push(project, pushed)

    def look() -> Finding:
        try:
            project.cloud.get(f"{_STORAGE}/{bucket}")
        except NotFound:
            return Finding(subject, name, State.LATER, f"`up` makes the bucket {bucket}", command)
        try:
            manifest = _manifest(project, bucket, folder, None)
            _check_files(project, bucket, f"{folder}/{manifest.version}/", manifest)
        except _Incomplete as error:
            if _is_plain(project, bucket, folder):
                return Finding(subject, name, State.MET, "there, without versions")
            return Finding(subject, name, State.MISSING, str(error), command)
        says = f"version {manifest.version}, {len(manifest.files)} files, {_size(manifest.size)}"
        return Finding(subject, name, State.MET, says)

    return judged(project, subject, name, look)


def _is_plain(project: Project, bucket: str, folder: str) -> bool:
    """Return whether an adapter was copied to its folder without a version."""
    found = project.cloud.get(
        f"{_STORAGE}/{bucket}/o", prefix=f"{folder}/", fields="items(name,size)"
    )
    names = {str(each["name"]).removeprefix(f"{folder}/") for each in found.get("items", [])}
    return CURRENT_NAME not in names and ADAPTER_CONFIG in names


def _size(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e8 else f"{size / 1e6:,.1f} MB"
