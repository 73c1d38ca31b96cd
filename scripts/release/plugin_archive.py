"""The components as an archive that Pulumi installs as a plugin.

A source-based plugin is a folder with PulumiPlugin.yaml, the manifest of its language and its entry
file (Pulumi's documentation, "Authoring a Source-Based Plugin Package"). `pulumi plugin install
resource NAME VERSION --file ARCHIVE` unpacks it, and Pulumi installs its dependencies.
"""

import gzip
import io
import os
import tarfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PLUGIN: Final = "gke-inference"
"""Name of the package in the Pulumi engine."""
_MODE = 0o644


def write_archive(plugin: Path, folder: Path, seconds: int) -> Path:
    """Write the files of a plugin: sorted, of nobody, and with one time. Return the archive.

    Its name has Pulumi's form, without a platform because it contains only Python. A folder that is
    a link, such as that of the launcher, is copied: what it points to is outside of the plugin.

    Args:
        plugin: Folder with PulumiPlugin.yaml and pyproject.toml.
        folder: Where to write the archive.
        seconds: Time of every file, since 1970.
    """
    version = tomllib.loads((plugin / "pyproject.toml").read_text())["project"]["version"]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for each in sorted(_files(plugin)):
            content = each.read_bytes()
            entry = tarfile.TarInfo(each.relative_to(plugin).as_posix())
            entry.size, entry.mtime, entry.mode = len(content), seconds, _MODE
            archive.addfile(entry, io.BytesIO(content))
    file = folder / f"pulumi-resource-{PLUGIN}-v{version}.tar.gz"
    file.write_bytes(gzip.compress(packed.getvalue(), mtime=seconds))
    return file


def _files(folder: Path) -> Iterator[Path]:
    """Return the files of a folder and of the folders that its links point to."""
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [each for each in folders if each != "__pycache__"]
        yield from (Path(parent, name) for name in names)
