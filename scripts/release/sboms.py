"""CycloneDX bills of materials: of the lock of this repository, and of each image.

CycloneDX's own tool reads the locks. To an image it adds its base, the modules of its Go program,
and recorded licenses. What no lock lists, such as the packages of the base, is named in the
property `gke-inference:unknown`, and the composition is marked as incomplete.
"""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from gke_inference.catalogue.versions import Image
from scripts.release.contents.images import Contents, contents, normal_name, packages_of
from scripts.release.contents.record import Package, Registry, license_of, read_record
from scripts.release.packages import program_of, run_program

SBOM: Final = "gke-inference.cdx.json"
UNKNOWN: Final = "gke-inference:unknown"
_LOCK: Final = "requirements.lock"
_ROOT: Final = "image"


def write_sboms(sources: Path, folder: Path, seconds: int) -> None:
    """Write the bill of materials of the lock, and one for each image.

    Args:
        sources: Files of a commit.
        folder: Where to write them.
        seconds: Time of the commit, since 1970.
    """
    _read_lock(sources / _LOCK, folder / SBOM, seconds, sources / "pyproject.toml")
    record = read_record()
    for target, image in contents(sources).items():
        sbom = image_sbom(sources, image, record, seconds)
        text = json.dumps(sbom, indent=1, sort_keys=True) + "\n"
        (folder / name_of(target)).write_text(text, encoding="utf-8")


def name_of(target: str) -> str:
    """Return the name of the bill of materials of an image."""
    return f"image-{target}.cdx.json"


def image_sbom(
    sources: Path, image: Contents, record: Mapping[Package, str], seconds: int
) -> dict[str, Any]:
    """Return the bill of materials of an image.

    Raises:
        CommandError: A package has no recorded license, or the lock cannot be read.
    """
    packages = packages_of(sources, image)
    files = _files(sources / image.lock, seconds) if image.lock else {}
    components = [
        {
            "type": "library",
            "bom-ref": package.url,
            "name": package.name,
            "version": package.version,
            "purl": package.url,
            "licenses": _licenses(license_of(package, record)),
            **(
                {"externalReferences": files[package.name]}
                if package.registry is Registry.PYPI and package.name in files
                else {}
            ),
        }
        for package in packages
    ]
    bases = [*([image.base] if image.base else []), *image.parts.values()]
    references = [_container(each) for each in bases]
    build = image.build
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "bom-ref": _ROOT,
                "name": f"gke-inference/{build.target}",
                "version": build.version,
                "licenses": _licenses("Apache-2.0"),
            },
            "properties": [{"name": UNKNOWN, "value": each} for each in image.unknown],
        },
        "components": sorted([*components, *references], key=lambda each: each["bom-ref"]),
        "compositions": [{"aggregate": "incomplete", "assemblies": [_ROOT]}],
    }


def _licenses(expression: str) -> list[dict[str, Any]]:
    return [{"expression": expression, "acknowledgement": "concluded"}]


def _container(image: Image) -> dict[str, Any]:
    return {
        "type": "container",
        "bom-ref": image.reference,
        "name": image.repository,
        "version": image.tag or image.digest,
        **(
            {"hashes": [{"alg": "SHA-256", "content": image.digest.removeprefix("sha256:")}]}
            if image.digest
            else {}
        ),
    }


def _files(lock: Path, seconds: int) -> dict[str, list[dict[str, Any]]]:
    """Return the files of each package of a lock with their hashes, by CycloneDX's tool."""
    with tempfile.TemporaryDirectory() as made:
        file = Path(made, "lock.json")
        _read_lock(lock, file, seconds)
        read: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return {
        normal_name(each["name"]): each["externalReferences"]
        for each in read["components"]
        if "externalReferences" in each
    }


def _read_lock(lock: Path, file: Path, seconds: int, project: Path | None = None) -> None:
    run_program(
        [
            *(program_of("cyclonedx-py"), "requirements", str(lock)),
            *(("--pyproject", str(project)) if project else ()),
            *("--output-reproducible", "--output-file", str(file)),
        ],
        lock.parent,
        seconds,
    )
