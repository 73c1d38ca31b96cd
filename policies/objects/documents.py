"""Reads folders of YAML: multi-document files, Lists, and the output of `render`."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The C loader if available: it reads a thousand objects in one second instead of ten."""

_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_SUFFIXES = (".yaml", ".yml", ".json")
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")


class UnreadableError(ValueError):
    """Input that is not plain objects. The message explains how to convert it."""


@dataclass(frozen=True)
class Document:
    """One object, and the file that contains it."""

    file: str
    body: dict[str, Any]


@dataclass(frozen=True)
class Source:
    """The objects of one cluster."""

    name: str
    """Name of the cluster, empty for a folder of arbitrary YAML."""
    documents: tuple[Document, ...]
    resources: tuple[dict[str, Any], ...] | None
    """Pulumi resources in addition to the objects, in the output of `render`."""


def sources(paths: list[Path]) -> list[Source]:
    """Return the objects in some paths, separately for each cluster that `render` wrote.

    Raises:
        UnreadableError: a path is not there, holds templates or is no YAML.
    """
    found: list[Source] = []
    plain: list[Document] = []
    for path in paths:
        if not path.exists():
            raise UnreadableError(f"{path}: no such file or folder")
        rendered = _rendered(path)
        if rendered:
            found += rendered
        else:
            plain += _documents(path)
    if plain:
        found.insert(0, Source("", tuple(plain), None))
    if not any(source.documents for source in found):
        raise UnreadableError(
            f"{', '.join(map(str, paths))}: no Kubernetes object in files *.yaml, *.yml or *.json"
        )
    return found


def _rendered(path: Path) -> list[Source]:
    """Return the clusters in a folder that `render` wrote, or none for other folders."""
    root = path.parent if path.name == "manifests" else path
    listing, folder = root / "resources.json", root / "manifests"
    if not (path.is_dir() and listing.is_file() and folder.is_dir()):
        return []
    resources = tuple(cast(list[dict[str, Any]], json.loads(listing.read_text())))
    return [
        Source(cluster.name, tuple(_documents(cluster)), resources)
        for cluster in sorted(folder.iterdir())
        if cluster.is_dir()
    ]


def _documents(path: Path) -> Iterator[Document]:
    if path.is_file():
        yield from _file(path)
        return
    for name in _KUSTOMIZATIONS:
        if (path / name).is_file():
            raise UnreadableError(
                f"{path / name}: bases and patches are not objects; render them first with "
                f"`kubectl kustomize {path} > rendered.yaml`, and check that file"
            )
    if (path / "Chart.yaml").is_file():
        raise UnreadableError(_helm(path / "Chart.yaml", path))
    for child in sorted(path.iterdir()):
        if child.is_dir() and not child.name.startswith("."):
            yield from _documents(child)
        elif child.suffix in _SUFFIXES:
            yield from _file(child)


def _file(path: Path) -> Iterator[Document]:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableError(f"{path}: is not UTF-8 text: {error}") from error
    try:
        loaded = list(yaml.load_all(text, Loader=LOADER))
    except yaml.YAMLError as error:
        if _TEMPLATE.search(text):
            raise UnreadableError(_helm(path, path.parent)) from error
        raise UnreadableError(f"{path}: invalid YAML: {' '.join(str(error).split())}") from error
    for each in loaded:
        yield from _objects(path, each)


def _objects(path: Path, value: Any) -> Iterator[Document]:
    if not isinstance(value, dict):
        return
    body = cast(dict[str, Any], value)
    if not isinstance(body.get("kind"), str) or "apiVersion" not in body:
        return
    if body["kind"].endswith("List") and isinstance(body.get("items"), list):
        for item in cast(list[Any], body["items"]):
            yield from _objects(path, item)
        return
    metadata: Any = body.get("metadata")
    if not isinstance(metadata, dict):
        return
    named = cast(dict[str, Any], metadata)
    if _TEMPLATE.search(str(named.get("name", ""))):
        raise UnreadableError(_helm(path, path.parent))
    if named.get("name") or named.get("generateName"):
        yield Document(str(path), body)


def _helm(file: Path, folder: Path) -> str:
    return (
        f"{file}: is a template (such as Helm's), not an object; render it first with "
        f"`helm template RELEASE {folder} > rendered.yaml`, and check that file"
    )
