"""What makes a folder of weights complete: the manifest of a version, and the pointer to one.

The layout of a bucket, the same for every writer and reader:

- `MODEL_FOLDER/VERSION/FILES…`: a version never changes. `MODEL_FOLDER` is what `weights` of a
  stack names; a version of it is named behind an `@`, as in `llama-3.1-8b@2f0c8a41b6de`.
- `MODEL_FOLDER/VERSION/_MANIFEST.json`: written last, and only where there is none. A version
  without it is not there.
- `MODEL_FOLDER/_CURRENT.json`: the version that `weights` without a version means.
- `MODEL_FOLDER/adapters/NAME`: a folder of versions and a pointer, as that of a model.

Only the standard library is used, and no syntax newer than Python 3.9: it runs in any image.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

FORMAT = 1
"""Version of both files; a reader refuses another one."""

MANIFEST_NAME = "_MANIFEST.json"
CURRENT_NAME = "_CURRENT.json"
ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
"""Files of an adapter; it has one of the weights."""

_VERSION = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_VERSION_RULE = "must be 1 to 63 lower-case letters, digits, dots, hyphens and underscores"
_ADAPTERS = "adapters"
_RESERVED = (_ADAPTERS, "live-adapters")  # folders that may be beside the versions
_CREATED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_CRC32C = re.compile(r"[A-Za-z0-9+/]{5}[AQgw]==")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DEFAULT_DIGITS = 12


@dataclass(frozen=True)
class FileEntry:
    """One file of a version."""

    name: str
    """Path below the version's folder, with `/` between its parts."""
    size: int
    """Bytes."""
    crc32c: str
    """CRC-32C as Cloud Storage writes it: 4 bytes, big-endian, in base64."""
    sha256: str
    """SHA-256 in hexadecimal digits."""


@dataclass(frozen=True)
class Manifest:
    """Everything that a version must have."""

    model: str
    """Folder of the model in its bucket, for people who find the file."""
    version: str
    created: str
    """Time of the first push, RFC 3339."""
    files: "tuple[FileEntry, ...]"
    """Sorted by name."""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    @classmethod
    def parse(cls, text: str) -> "Manifest":
        """Return the manifest that a file holds.

        Raises:
            ValueError: It is none; one line with field, rule and value.
        """
        content = _content(text, "manifest")
        _only(content, "manifest", ("format", "model", "version", "created", "files"))
        files: Any = content["files"]
        if not isinstance(files, list) or not files:
            raise _wrong("files", "must be a list with at least one file", content["files"])
        listed = cast("list[Any]", files)
        entries = tuple(_entry(f"files[{at}]", each) for at, each in enumerate(listed))
        names = [entry.name for entry in entries]
        if names != sorted(set(names)):
            raise _wrong("files", "must be sorted by name, each name once", names)
        return cls(
            model=_text("model", content["model"], re.compile(r"\S.*"), "must be a folder"),
            version=check_version(content["version"]),
            created=_text("created", content["created"], _CREATED, "must be a time, RFC 3339"),
            files=entries,
        )

    def dump(self) -> str:
        """Return the file's content; the same manifest is always the same text."""
        return _dump({"format": FORMAT, **asdict(self), "files": [asdict(f) for f in self.files]})


@dataclass(frozen=True)
class Current:
    """The pointer to the version that a stack without one uses."""

    version: str

    @classmethod
    def parse(cls, text: str) -> "Current":
        """Return the pointer that a file holds.

        Raises:
            ValueError: It is none; one line with field, rule and value.
        """
        content = _content(text, "pointer")
        _only(content, "pointer", ("format", "version"))
        return cls(check_version(content["version"]))

    def dump(self) -> str:
        """Return the file's content."""
        return _dump({"format": FORMAT, "version": self.version})


def version_of(files: Iterable[FileEntry]) -> str:
    """Return the name that a version has by default: it follows from names, sizes and contents."""
    listed = [asdict(file) for file in sorted(files, key=lambda file: file.name)]
    text = json.dumps(listed, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DEFAULT_DIGITS]


def check_folder(folder: Path, manifest: Manifest) -> "list[str]":
    """Return the names of the files that are missing or have another size.

    Each name is looked up by itself: a listing of a mounted bucket may be an old one.
    """
    wrong: list[str] = []
    for file in manifest.files:
        try:
            size = os.stat(folder / file.name).st_size
        except OSError:
            size = -1
        if size != file.size:
            wrong.append(file.name)
    return wrong


def check_version(value: object, field: str = "version") -> str:
    """Return the name of a version.

    Raises:
        ValueError: It is none; one line with field, rule and value.
    """
    rule = version_problem(value)
    if rule is not None:
        raise _wrong(field, rule, value)
    return str(value)


def version_problem(value: object) -> "str | None":
    """Return the rule that a value breaks as the name of a version; None: it breaks none."""
    if not isinstance(value, str) or not _VERSION.fullmatch(value):
        return f"{_VERSION_RULE}, no mark first"
    return f"must not be one of {', '.join(_RESERVED)}" if value in _RESERVED else None


def check_name(value: object, field: str = "name") -> str:
    """Return the name of a file: a relative path that cannot leave its folder.

    Raises:
        ValueError: It is none; one line with field, rule and value.
    """
    rule = "must be a relative path without '.', '..' or control characters"
    name = _text(field, value, re.compile(r"[^\x00-\x1f\x7f\\]{1,900}"), rule)
    if any(part in ("", ".", "..") for part in name.split("/")):
        raise _wrong(field, rule, name)
    if name in (MANIFEST_NAME, CURRENT_NAME):
        raise _wrong(field, f"must not be {name}, which is written by the tool", name)
    return name


def adapter_folder(model: str, adapter: str) -> str:
    """Return the folder of an adapter, below the folder of its model."""
    return f"{model}/{_ADAPTERS}/{adapter}"


def split(weights: str) -> "tuple[str, str | None]":
    """Return folder and version of `weights`, as in `FOLDER@VERSION`; None: the current one.

    Raises:
        ValueError: The version is none; one line with field, rule and value.
    """
    folder, mark, version = weights.rstrip("/").partition("@")
    return folder, check_version(version, "weights") if mark else None


def _content(text: str, what: str) -> "dict[str, Any]":
    try:
        content = json.loads(text)
    except ValueError:
        raise _wrong(what, "must be JSON", text[:40]) from None
    if not isinstance(content, dict):
        raise _wrong(what, "must be a mapping of fields", content)
    found = cast("dict[str, Any]", content)
    if type(found.get("format")) is not int or found["format"] != FORMAT:
        raise _wrong("format", f"must be {FORMAT} for this release", found.get("format"))
    return found


def _only(content: "Mapping[str, Any]", where: str, fields: "tuple[str, ...]") -> None:
    unknown = sorted(set(content) - set(fields))
    missing = sorted(set(fields) - set(content))
    if unknown or missing:
        raise _wrong(where, f"must have the fields {', '.join(fields)}", sorted(content))


def _entry(where: str, value: object) -> FileEntry:
    if not isinstance(value, dict):
        raise _wrong(where, "must be a mapping of fields", value)
    content = cast("dict[str, Any]", value)
    _only(content, where, ("name", "size", "crc32c", "sha256"))
    size = content["size"]
    if type(size) is not int or size < 0:
        raise _wrong(f"{where}.size", "must be a whole number of bytes", size)
    return FileEntry(
        name=check_name(content["name"], f"{where}.name"),
        size=size,
        crc32c=_text(f"{where}.crc32c", content["crc32c"], _CRC32C, "must be 4 bytes in base64"),
        sha256=_text(f"{where}.sha256", content["sha256"], _SHA256, "must be 64 digits 0 to f"),
    )


def _text(field: str, value: object, pattern: "re.Pattern[str]", rule: str) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise _wrong(field, rule, value)
    return value


def _wrong(field: str, rule: str, value: object) -> ValueError:
    shown = " ".join(repr(value).split())
    return ValueError(f"{field}: {rule}, got {shown[:120]}")


def _dump(content: "dict[str, Any]") -> str:
    return json.dumps(content, indent=1, sort_keys=True) + "\n"
