"""Writes digests to the lock of versions and to stacks, keeping their comments."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import PlainScalarString

from gke_inference.catalogue import versions
from infra.reading.load import KEY, PROJECT, STACKS

LOCK = Path(versions.__file__).with_name("data") / "versions.yaml"


def write_lock(digests: Mapping[str, tuple[str, str]], file: Path = LOCK) -> None:
    """Write digests to the lock.

    Args:
        digests: (digest, source and date) by entry, such as `images.vllm_gpu`.
        file: Lock file.
    """
    document = _read(file)
    for entry, (digest, source) in digests.items():
        section, _, name = entry.partition(".")
        body = document[section][name]
        body["digest"] = PlainScalarString(digest)  # a plain text would take the old one's quotes
        if "digest_source" in body:
            body["digest_source"] = source
        else:
            body.insert(list(body).index("digest") + 1, "digest_source", source)
    _write(document, file)


def write_stack(stack: str, digests: Mapping[str, str], folder: Path = STACKS) -> Path:
    """Add digests to a stack, sorted, and return its file."""
    file = folder / f"Pulumi.{stack}.yaml"
    document = _read(file)
    images = document["config"][f"{PROJECT}:{KEY}"]["images"]
    known = {**dict(images.get("digests") or {}), **digests}
    images["digests"] = dict(sorted(known.items()))
    _write(document, file)
    return file


def _yaml() -> YAML:
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    return yaml


def _read(file: Path) -> Any:
    return _yaml().load(file.read_text(encoding="utf-8"))


def _write(document: Any, file: Path) -> None:
    text = io.StringIO()
    _yaml().dump(document, text)
    file.write_text(text.getvalue(), encoding="utf-8")
