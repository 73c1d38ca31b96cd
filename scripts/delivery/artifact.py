"""A tree as an OCI artifact: one gzipped tar layer, for Config Sync, `flux` and `oras`.

The bytes depend only on the tree: there are no times and no owners.
"""

import gzip
import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from scripts.delivery.tree import Tree
from scripts.images.registry import Registry, RegistryError
from scripts.terminal.console import CommandError

_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
_TREE_DIGEST: Final = "gke-inference.dev/tree"


@dataclass(frozen=True)
class Artifact:
    """An image manifest and the blobs that it refers to."""

    manifest: bytes
    blobs: dict[str, bytes]

    @property
    def digest(self) -> str:
        """Digest of the manifest, which names the artifact."""
        return _digest(self.manifest)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON with one form only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def artifact_of(tree: Tree, stack: str) -> Artifact:
    """Return the artifact of a tree."""
    plain = _tar(tree)
    layer = gzip.compress(plain, compresslevel=9, mtime=0)
    annotations = {"org.opencontainers.image.title": stack, _TREE_DIGEST: tree.digest}
    return one_layer(layer, _LAYER, _digest(plain), annotations=annotations)


def one_layer(
    layer: bytes,
    media_type: str,
    diff_id: str | None = None,
    *,
    annotations: Mapping[str, str] | None = None,
    layer_annotations: Mapping[str, str] | None = None,
) -> Artifact:
    """Return an artifact of one layer.

    Args:
        layer: Content of the layer.
        media_type: Media type of the layer.
        diff_id: Digest of the layer without compression; by default, that of the layer.
        annotations: Annotations of the manifest.
        layer_annotations: Annotations of the layer.
    """
    config = json_bytes(
        {
            "architecture": "amd64",
            "config": {},
            "os": "linux",
            "rootfs": {"diff_ids": [diff_id or _digest(layer)], "type": "layers"},
        }
    )
    described: dict[str, Any] = {
        "digest": _digest(layer),
        "mediaType": media_type,
        "size": len(layer),
    }
    manifest: dict[str, Any] = {
        "config": {"digest": _digest(config), "mediaType": _CONFIG, "size": len(config)},
        "layers": [described],
        "mediaType": _MANIFEST,
        "schemaVersion": 2,
    }
    if annotations:
        manifest["annotations"] = dict(annotations)
    if layer_annotations:
        described["annotations"] = dict(layer_annotations)
    return Artifact(json_bytes(manifest), {_digest(config): config, _digest(layer): layer})


def _tar(tree: Tree) -> bytes:
    found = io.BytesIO()
    folders = {str(up) for path in tree.files for up in PurePosixPath(path).parents} - {"."}
    with tarfile.open(fileobj=found, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for folder in sorted(folders):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for path, text in sorted(tree.files.items()):
            content = text.encode()
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return found.getvalue()


def write_layout(artifact: Artifact, folder: Path, tag: str) -> None:
    """Write an artifact to an OCI image layout under one tag; keep the layout's other tags.

    Raises:
        CommandError: The folder has other content.
    """
    layout, index = folder / "oci-layout", folder / "index.json"
    if folder.exists() and any(folder.iterdir()) and not layout.is_file():
        raise CommandError(f"--oci: must be an empty folder or an OCI layout, got {str(folder)!r}")
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True, exist_ok=True)
    for digest, content in {**artifact.blobs, artifact.digest: artifact.manifest}.items():
        (blobs / digest.removeprefix("sha256:")).write_bytes(content)
    name = "org.opencontainers.image.ref.name"
    known: list[dict[str, Any]] = []
    if index.is_file():
        known = json.loads(index.read_text())["manifests"]
    entry = {
        "annotations": {name: tag},
        "digest": artifact.digest,
        "mediaType": _MANIFEST,
        "size": len(artifact.manifest),
    }
    kept = [each for each in known if each.get("annotations", {}).get(name) != tag]
    content = {"manifests": [*kept, entry], "mediaType": _INDEX, "schemaVersion": 2}
    layout.write_text(json.dumps({"imageLayoutVersion": "1.0.0"}))
    index.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def push(artifact: Artifact, reference: str) -> None:
    """Push an artifact to a registry under a tag, with the credentials of the user.

    Raises:
        CommandError: The registry refuses.
    """
    with tempfile.TemporaryDirectory() as folder:
        write_layout(artifact, Path(folder), "pushed")
        try:
            Registry().push(Path(folder), reference)
        except RegistryError as error:
            raise CommandError(str(error)) from None
