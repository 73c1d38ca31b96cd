"""The one lock of API versions, images and GKE minimums, read from data/versions.yaml.

Every manifest in this package and in `workloads` takes its `apiVersion`, `kind` and image from
here, so that an upgrade is one line and what runs in the cloud is what was tried before.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gke_inference.catalogue.data_file import read_table

_FILE = Path(__file__).parent / "data" / "versions.yaml"


@dataclass(frozen=True)
class ApiKind:
    """An API version and kind as a manifest spells them."""

    api_version: str
    kind: str

    @property
    def group(self) -> str:
        """The API group, empty for the core group."""
        return self.api_version.rpartition("/")[0]


@dataclass(frozen=True)
class Image:
    """A container image at an exact tag, with its digest where one is known."""

    repository: str
    tag: str
    digest: str = ""

    @property
    def reference(self) -> str:
        """`REPOSITORY:TAG`, and `@DIGEST` behind it when the digest is known."""
        pinned = f"{self.repository}:{self.tag}"
        return f"{pinned}@{self.digest}" if self.digest else pinned


def api(name: str) -> ApiKind:
    """Returns one API version and kind of the lock, such as `api("inference_pool")`.

    Raises:
        ValueError: The lock has no such entry.
    """
    entry = _entry("apis", name)
    return ApiKind(api_version=entry["api_version"], kind=entry["kind"])


def image(name: str) -> Image:
    """Returns one image of the lock, such as `image("endpoint_picker")`.

    Raises:
        ValueError: The lock has no such entry.
    """
    entry = _entry("images", name)
    return Image(repository=entry["repository"], tag=entry["tag"], digest=entry["digest"])


def base_image(name: str) -> Image:
    """Returns what our own programs and images start from, such as `base_image("python")`.

    Raises:
        ValueError: The lock has no such entry.
    """
    entry = _entry("bases", name)
    return Image(repository=entry["repository"], tag=entry["tag"], digest=entry["digest"])


def engine_version(name: str) -> str:
    """Returns the engine release inside an engine image, such as `0.32.0` for `vllm_gpu`.

    Raises:
        ValueError: The lock has no such entry.
    """
    return str(_entry("engines", name)["version"])


@dataclass(frozen=True)
class Build:
    """One of our own images: its folder in workloads/images and what it starts from."""

    name: str
    """Entry of the lock's `images` that it stands for, such as `vllm_gpu`."""
    folder: str
    """Its folder, and its name in a repository, such as `vllm-gpu`."""
    base: Image
    """The image it starts from."""
    base_entry: str
    """Where the lock has that image, such as `bases.python`."""
    version: str
    """Release of the engine in it, or of our own program."""


def builds() -> dict[str, Build]:
    """Returns our own images by the entry of `images` they stand for."""
    return {name: _build(name, entry) for name, entry in sorted(lock()["builds"].items())}


def images() -> dict[str, Image]:
    """Returns every image of the lock by name."""
    return {name: image(name) for name in lock()["images"]}


def gke_minimum(feature: str) -> str:
    """Returns the oldest GKE version that has a feature.

    Raises:
        ValueError: The lock has no such entry.
    """
    return str(_entry("gke_minimums", feature)["version"])


@dataclass(frozen=True)
class Channel:
    """What a release channel of GKE has been seen with."""

    default: str
    """Version of a new cluster that asks for none."""
    newest: str
    """Newest version that a cluster can ask for."""


def channel(name: str) -> Channel:
    """Returns what a release channel such as `regular` has been seen with.

    Raises:
        ValueError: The lock has no such entry.
    """
    return Channel(**_entry("gke_channels", name))


def version_key(version: str) -> tuple[int, ...]:
    """Returns a version of GKE as numbers that can be compared."""
    return tuple(int(part) for part in re.findall(r"\d+", version))


def minor_of(version: str) -> str:
    """Returns the minor version that GKE reads as its newest patch: `1.36` of `1.36.4-gke.2`."""
    return ".".join(version.split(".")[:2])


@cache
def retired() -> dict[tuple[str, str], str]:
    """Returns what replaces each API that is not served any more: (version, kind) to version.

    The kind is `*` where every kind of the version went.
    """
    return {
        (str(each["api_version"]), kind): str(each["now"])
        for each in lock()["retired"].values()
        for kind in each["kinds"]
    }


@cache
def lock() -> dict[str, dict[str, dict[str, Any]]]:
    """Returns the whole lock: section, then name, then fields."""
    loaded: Any = read_table(_FILE)
    return {section: body for section, body in loaded.items() if isinstance(body, dict)}


def _build(name: str, entry: dict[str, Any]) -> Build:
    section, _, key = str(entry["base"]).partition(".")
    base = _entry(section, key)
    return Build(
        name=name,
        folder=entry["folder"],
        base=Image(repository=base["repository"], tag=base["tag"], digest=base["digest"]),
        base_entry=entry["base"],
        version=str(entry["version"]) if "version" in entry else engine_version(name),
    )


def _entry(section: str, name: str) -> dict[str, Any]:
    entries = lock()[section]
    if name not in entries:
        known = ", ".join(sorted(entries))
        raise ValueError(f"{section}: no entry {name!r} in versions.yaml, it has {known}")
    return entries[name]
