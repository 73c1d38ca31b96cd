"""The versions of a model in a bucket, with their states."""

from dataclasses import dataclass

from workloads.engine.weights_manifest import CURRENT_NAME, MANIFEST_NAME
from workloads.transfer.errors import TransferError
from workloads.transfer.store import Store, Stored
from workloads.transfer.versions import PARTS, Found, Home, read_current, read_manifest

_WEIGHTS = (".safetensors", ".bin", ".gguf")


@dataclass(frozen=True)
class VersionState:
    """One version in one bucket."""

    version: str
    state: str
    """`complete`, `half-uploaded` or `damaged`."""
    size: int
    """Bytes that are there."""
    expected_size: int | None
    """Bytes of the whole version; None: only its manifest knows."""
    created: str | None
    is_current: bool
    note: str = ""


def versions(store: Store, home: Home) -> list[VersionState]:
    """Return the versions of a model in a bucket, by name.

    Raises:
        TransferError: The bucket cannot be read.
    """
    objects = store.objects(home.bucket, f"{home.folder}/")
    grouped: dict[str, dict[str, Stored]] = {}
    begun: dict[str, int] = {}
    for name, stored in objects.items():
        first, _, rest = name.removeprefix(f"{home.folder}/").partition("/")
        if first == PARTS:
            version = rest.partition("/")[0]
            begun[version] = begun.get(version, 0) + stored.size
        elif rest:
            grouped.setdefault(first, {})[rest] = stored
    current = read_current(store, home) if f"{home.folder}/{CURRENT_NAME}" in objects else None
    known = {
        name
        for name, files in grouped.items()
        if MANIFEST_NAME in files or name in begun or _is_version(files)
    } | set(begun)
    return [
        _state(store, home, name, grouped.get(name, {}), begun.get(name, 0), current)
        for name in sorted(known)
    ]


def _is_version(files: dict[str, Stored]) -> bool:
    """Return whether a folder without a manifest was to become one: a model's files are in it.

    Those of adapters are one folder deeper.
    """
    return any(
        name == "config.json" or name.endswith(_WEIGHTS) for name in files if "/" not in name
    )


def _state(
    store: Store,
    home: Home,
    version: str,
    files: dict[str, Stored],
    begun_bytes: int,
    current: str | None,
) -> VersionState:
    objects = {name: stored for name, stored in files.items() if name != MANIFEST_NAME}
    size = sum(stored.size for stored in objects.values())
    is_current = version == current
    if MANIFEST_NAME not in files:
        return VersionState(version, "half-uploaded", size + begun_bytes, None, None, is_current)
    try:
        manifest = read_manifest(store, home, version)
    except TransferError as error:
        return VersionState(version, "damaged", size, None, None, is_current, str(error))
    found = Found(manifest, objects)
    if manifest is None:
        return VersionState(version, "half-uploaded", size, None, None, is_current)
    state = "complete" if found.is_complete else "damaged"
    note = "" if state == "complete" else "run models verify"
    return VersionState(version, state, size, manifest.size, manifest.created, is_current, note)
