"""Where official binaries come from: addresses and images, with everything filled in."""

import platform as machine
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gke_inference.catalogue.versions import image
from twin.toolchain.registry import Module, ToolError

_ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@dataclass(frozen=True)
class Download:
    """One file or image, and the programs in it."""

    address: str
    """What the lock lists: a URL, or an image with its platform after `#`."""
    members: Mapping[str, str]
    """Program and its path in the archive or image; an empty path: the file is the program."""
    checksums: str = ""
    """The file of checksums that the project publishes; empty: none, or an image."""

    @property
    def is_image(self) -> bool:
        """Return whether this is a container image."""
        return "://" not in self.address

    @property
    def reference(self) -> str:
        """Return the image's reference, without its platform."""
        return self.address.split("#")[0]

    @property
    def platform(self) -> str:
        """Return the image's platform, such as `linux/amd64`."""
        return self.address.partition("#")[2]

    @property
    def file_name(self) -> str:
        """Return the last part of the URL."""
        return self.address.rsplit("/", 1)[-1]


def current_platform() -> str:
    """Return this machine's operating system and architecture with Go's names."""
    name = machine.machine().lower()
    return f"{machine.system().lower()}/{_ARCHITECTURES.get(name, name)}"


def downloads(module: Module, platform: str) -> Iterator[list[Download]]:
    """Yield the downloads of each release of a module for a platform.

    Releases that are not published for the platform, or miss a program of the module, are omitted.

    Args:
        module: module of modules.yaml.
        platform: platform, such as `linux/amd64`.
    """
    for release in module.releases:
        if platform in release["platforms"]:
            filled = list(_filled(module, release, platform))
            provided = {program for download in filled for program in download.members}
            if provided == set(module.wanted):
                yield filled


def platforms(module: Module) -> list[str]:
    """Return the platforms for which any release of a module is published."""
    return sorted({name for release in module.releases for name in release["platforms"]})


def _filled(module: Module, release: dict[str, Any], platform: str) -> Iterator[Download]:
    words = _words(module, release.get("names", {}), platform)
    templates: dict[str, str] = release.get("members", {})
    members = {
        program: path.format(**words)
        for program, path in templates.items()
        if program in module.wanted
    }
    if "image" in release:
        yield Download(f"{release['image'].format(**words)}#{platform}", members)
    elif templates:
        checksums: str = release.get("checksums", "")
        yield Download(release["address"].format(**words), members, checksums.format(**words))
    else:
        for program in module.wanted:
            own = {**words, "program": program}
            checksums = release.get("checksums", "")
            yield Download(release["address"].format(**own), {program: ""}, checksums.format(**own))


def _words(module: Module, names: Mapping[str, str], platform: str) -> dict[str, Any]:
    system, architecture = platform.split("/")
    return {
        "version": module.version,
        "locked": _Locked(),
        "number": module.version.removeprefix("v"),
        "release": _release_number(module),
        "os": names.get(system, system),
        "arch": names.get(architecture, architecture),
    }


class _Locked(dict[str, str]):
    """Images of the platform's lock, without digests: the twin has one for each platform."""

    def __missing__(self, name: str) -> str:
        return f"{image(name).repository}:{image(name).tag}"


def _release_number(module: Module) -> str:
    rule: dict[str, str] | None = module.spec.get("release_number")
    if rule is None:
        return module.version.removeprefix("v")
    number, replaced = re.subn(f"^{rule['pattern']}$", rule["becomes"], module.version)
    if not replaced:
        raise ToolError(
            f"{module.name}: release_number must match the version, got {module.version}"
        )
    return number
