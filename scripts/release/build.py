"""Builds the files of a release from a commit."""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gke_inference.catalogue.versions import Image, images
from scripts.release.checksums import checksums_of, differences, write_checksums
from scripts.release.packages import build_wheels
from scripts.release.plugin_archive import write_archive
from scripts.release.provenance import statement_of, write_statement
from scripts.release.sboms import write_sboms
from scripts.release.sources import Commit, export
from scripts.terminal.console import CommandError


def build(repository: Path, commit: Commit, folder: Path) -> None:
    """Write every file of a release to a folder, which must be empty."""
    with tempfile.TemporaryDirectory() as made:
        sources = Path(made)
        export(repository, commit, sources)
        build_wheels(sources, folder, commit.seconds)
        write_archive(sources / "components", folder, commit.seconds)
        write_images(images(), folder / IMAGES)
        write_sboms(sources, folder, commit.seconds)
        write_statement(statement_of(sources, commit, checksums_of(folder)), folder)
    write_checksums(folder)


def build_twice(repository: Path, commit: Commit, folder: Path) -> None:
    """Write every file of a release to a folder, and compare them with those of a second build.

    Raises:
        CommandError: The builds differ; the message names the files.
    """
    build(repository, commit, folder)
    with tempfile.TemporaryDirectory() as made:
        again = Path(made)
        build(repository, commit, again)
        found = differences(checksums_of(folder), checksums_of(again))
    if found:
        raise CommandError(f"two builds of {commit.sha} differ: {'; '.join(found)}")


IMAGES: Final = "images.json"


def write_images(images: Mapping[str, Image], file: Path) -> None:
    """Write each image with its reference and digest.

    A null digest means that nobody has read it from the registry yet. `is_built_by_you` marks the
    images of this project, which exist once you build them in a registry of your own.
    """
    listed = [
        {
            "name": name,
            "repository": None if image.is_placeholder else image.repository,
            "tag": image.tag or None,
            "digest": image.digest or None,
            "is_built_by_you": image.is_placeholder,
        }
        for name, image in sorted(images.items())
    ]
    file.write_text(json.dumps(listed, indent=1) + "\n", encoding="utf-8")
