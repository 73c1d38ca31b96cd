"""The components as an archive that Pulumi installs as a plugin.

A source-based plugin is a folder with PulumiPlugin.yaml, the manifest of its language and its entry
file (Pulumi's documentation, "Authoring a Source-Based Plugin Package"). `pulumi plugin install
resource NAME VERSION --file ARCHIVE` unpacks it, and Pulumi installs its dependencies.
"""

import gzip
import io
import tarfile
import tomllib
from pathlib import Path
from typing import Final

PLUGIN: Final = "gke-inference"
"""Name of the package in the Pulumi engine."""
_MODE = 0o644


def write_archive(plugin: Path, folder: Path, seconds: int) -> Path:
    """Write the files of a plugin: sorted, of nobody, and with one time. Return the archive.

    Its name has Pulumi's form, without a platform because it contains only Python.

    Args:
        plugin: Folder with PulumiPlugin.yaml and pyproject.toml.
        folder: Where to write the archive.
        seconds: Time of every file, since 1970.
    """
    version = tomllib.loads((plugin / "pyproject.toml").read_text())["project"]["version"]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for each in sorted(plugin.rglob("*")):
            if each.is_file():
                content = each.read_bytes()
                entry = tarfile.TarInfo(each.relative_to(plugin).as_posix())
                entry.size, entry.mtime, entry.mode = len(content), seconds, _MODE
                archive.addfile(entry, io.BytesIO(content))
    file = folder / f"pulumi-resource-{PLUGIN}-v{version}.tar.gz"
    file.write_bytes(gzip.compress(packed.getvalue(), mtime=seconds))
    return file
