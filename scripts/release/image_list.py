"""The container images that a release deploys, as JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gke_inference.catalogue.versions import Image

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
