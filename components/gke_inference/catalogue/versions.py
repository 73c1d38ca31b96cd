"""The lock of API versions, images and minimum GKE versions, read from data/versions.yaml.

All manifests in this package and in `workloads` take their `apiVersion`, `kind` and images from
here, so that an upgrade changes one line and the cloud runs what was tested.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from gke_inference.catalogue.data_file import read_table

_FILE = Path(__file__).parent / "data" / "versions.yaml"
_PLACEHOLDER = "gke-inference.invalid/"
"""Registry in the lock of images that exist only once they are built in a registry of one's own."""
DOCKER_HUB = "docker.io"
_GOOGLE = ("gcr.io", "gke.gcr.io", "us-docker.pkg.dev")
"""Registries of Google, which need no cache in Google Cloud."""


@dataclass(frozen=True)
class ApiKind:
    """An API version and kind, as in a manifest."""

    api_version: str
    kind: str

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        return self.api_version.rpartition("/")[0]

    def reference(self, name: str, **more: Any) -> dict[str, Any]:
        """Return a reference to an object, with fields such as its namespace, port or weight."""
        return {"group": self.group, "kind": self.kind, "name": name, **more}


@dataclass(frozen=True)
class Image:
    """A container image at an exact tag, with its digest if known.

    The tag is empty if its owner publishes only a digest.
    """

    repository: str
    tag: str
    digest: str = ""
    alias: str = ""
    """Its name in a repository of ours, if another image has that of upstream."""

    @property
    def reference(self) -> str:
        """`REPOSITORY:TAG`, followed by `@DIGEST` if the digest is known."""
        pinned = f"{self.repository}:{self.tag}" if self.tag else self.repository
        return f"{pinned}@{self.digest}" if self.digest else pinned

    @property
    def short_name(self) -> str:
        """Its name in a repository of ours: that of upstream, so that people recognize the image.

        Underscores are an exception: keys of `images.digests` cannot have them.
        """
        return self.alias or self.repository.rpartition("/")[2].replace("_", "-")

    @property
    def registry(self) -> str:
        """Host name of the registry, empty for an image that nodes already have."""
        host = self.repository.partition("/")[0]
        return host if "." in host else ""

    @property
    def is_placeholder(self) -> bool:
        """Whether no registry has the image under this reference: it must be built first."""
        return is_placeholder(self.reference)


def is_placeholder(reference: str) -> bool:
    """Return whether a reference is in the placeholder registry, from which nothing can pull."""
    return reference.startswith(_PLACEHOLDER)


def api(name: str) -> ApiKind:
    """Return one API version and kind of the lock, such as `api("inference_pool")`.

    Raises:
        ValueError: The lock has no such entry.
    """
    entry = _entry("apis", name)
    return ApiKind(api_version=entry["api_version"], kind=entry["kind"])


def image(name: str) -> Image:
    """Return one image of the lock, such as `image("endpoint_picker")`.

    Raises:
        ValueError: The lock has no such entry.
    """
    entry = _entry("images", name)
    return Image(
        alias=entry.get("alias", ""),
        digest=entry["digest"],
        repository=entry["repository"],
        tag=entry["tag"],
    )


def base_image(name: str) -> Image:
    """Return the base of our own programs and images, such as `base_image("python")`.

    Raises:
        ValueError: The lock has no such entry.
    """
    entry = _entry("bases", name)
    return Image(repository=entry["repository"], tag=entry["tag"], digest=entry["digest"])


def engine_version(name: str) -> str:
    """Return the engine release inside an engine image, such as `0.32.0` for `vllm_gpu`.

    Raises:
        ValueError: The lock has no such entry.
    """
    return str(_entry("engines", name)["version"])


@dataclass(frozen=True)
class Build:
    """One of our own images: its target in workloads/images/Dockerfile and its base."""

    name: str
    """Entry in the lock's `images` that it provides, such as `vllm_gpu`."""
    target: str
    """Its target, and its name in a repository, such as `vllm-gpu`."""
    base: Image
    """The base image."""
    base_entry: str
    """Entry of that image in the lock, such as `bases.python`."""
    version: str
    """Release of its engine, or of our own program."""
    parts: tuple[str, ...] = ()
    """Entries of `bases` whose files are copied into it, such as `beam_sdk`."""

    @property
    def unpinned(self) -> tuple[str, ...]:
        """Entries of images that it is built from and that have no digest."""
        parts = (f"bases.{each}" for each in self.parts if not base_image(each).digest)
        return (*(() if self.base.digest else (self.base_entry,)), *parts)


def parts() -> dict[str, Image]:
    """Return the images whose files are copied into own images, by their build argument.

    Every build gets all of them, because BuildKit resolves the names of all stages.
    """
    names = {each: None for build in builds().values() for each in build.parts}
    return {name.upper(): base_image(name) for name in names}


def builds() -> dict[str, Build]:
    """Return our own images by the entry of `images` that they provide."""
    return {name: _build(name, entry) for name, entry in sorted(lock()["builds"].items())}


def images() -> dict[str, Image]:
    """Return every image of the lock by name."""
    return {name: image(name) for name in lock()["images"]}


def third_party_registries() -> tuple[str, ...]:
    """Return the registries outside Google Cloud that have images of the lock, sorted."""
    found = {each.registry for each in images().values() if not each.is_placeholder}
    return tuple(sorted(found - {"", *_GOOGLE}))


def remote_repository(prefix: str, registry: str) -> str:
    """Return the name of the remote repository for a registry."""
    return f"{prefix}-{registry.replace('.', '-')}"


def engine_tags() -> dict[str, frozenset[str]]:
    """Return the tags of engine images that were seen to exist, by repository."""
    found: dict[str, set[str]] = {}
    for engine in lock()["engines"].values():
        used = image(engine["image"])
        found.setdefault(used.repository, set()).add(used.tag)
    for repository, seen in lock()["seen_tags"].items():
        found.setdefault(repository, set()).update(seen["tags"])
    return {repository: frozenset(tags) for repository, tags in found.items()}


def gke_minimum(feature: str) -> str:
    """Return the minimum GKE version with a feature.

    Raises:
        ValueError: The lock has no such entry.
    """
    return str(_entry("gke_minimums", feature)["version"])


@dataclass(frozen=True)
class Channel:
    """Versions observed in a GKE release channel."""

    default: str
    """Default version of a new cluster."""
    newest: str
    """Newest version that a cluster can request."""


def channel(name: str) -> Channel:
    """Return the versions observed in a release channel such as `regular`.

    Raises:
        ValueError: The lock has no such entry.
    """
    return Channel(**_entry("gke_channels", name))


def version_key(version: str) -> tuple[int, ...]:
    """Return a version, such as one of GKE, as a comparable tuple of its numbers."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def minor_of(version: str) -> str:
    """Return the minor version, which GKE resolves to its newest patch, such as `1.36`."""
    return ".".join(version.split(".")[:2])


@cache
def retired() -> dict[tuple[str, str], str]:
    """Return the replacement of each API that is no longer served: (version, kind) to version.

    The kind is `*` if all kinds of the version were removed.
    """
    return {
        (str(each["api_version"]), kind): str(each["now"])
        for each in lock()["retired"].values()
        for kind in each["kinds"]
    }


def replaced(value: Any, references: Mapping[str, str]) -> Any:
    """Return a value with every image reference replaced, at any depth.

    Outputs that are unknown before an `up` are unchanged: none of them is an image.
    """
    if isinstance(value, str):
        return references.get(value, value)
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        return {key: replaced(item, references) for key, item in given.items()}
    if isinstance(value, list):
        return [replaced(item, references) for item in cast("list[Any]", value)]
    return value


@cache
def lock() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the whole lock: section, then name, then fields."""
    loaded: Any = read_table(_FILE)
    return {section: body for section, body in loaded.items() if isinstance(body, dict)}


def _build(name: str, entry: dict[str, Any]) -> Build:
    section, _, key = str(entry["base"]).partition(".")
    base = _entry(section, key)
    return Build(
        name=name,
        target=entry["target"],
        base=Image(repository=base["repository"], tag=base["tag"], digest=base["digest"]),
        base_entry=entry["base"],
        parts=tuple(entry.get("parts", ())),
        version=str(entry["version"]) if "version" in entry else engine_version(name),
    )


def _entry(section: str, name: str) -> dict[str, Any]:
    entries = lock()[section]
    if name not in entries:
        known = ", ".join(sorted(entries))
        raise ValueError(f"{section}: no entry {name!r} in versions.yaml, it has {known}")
    return entries[name]
