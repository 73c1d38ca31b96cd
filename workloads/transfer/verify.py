"""Compares a version in a bucket with its manifest."""

from functools import partial

from workloads.engine.weights_manifest import FileEntry
from workloads.transfer.checksums import Checksums
from workloads.transfer.store import Store
from workloads.transfer.versions import Home, look
from workloads.transfer.work import Crew, Progress


def verify(
    store: Store, home: Home, version: str, crew: Crew, progress: Progress, *, is_deep: bool
) -> list[str]:
    """Return the problems of a version in a bucket, one line each; empty if it is complete.

    Sizes and CRC-32C are those that Cloud Storage reports of its objects.

    Args:
        store: Cloud Storage.
        home: Folder of the model.
        version: Version.
        crew: Threads that read.
        progress: Takes the bytes that were read.
        is_deep: Read every byte, and compare SHA-256 as well.

    Raises:
        TransferError: The bucket or its manifest cannot be read.
    """
    found = look(store, home, version)
    where = f"{home.uri}/{version}"
    if found.manifest is None:
        state = "is half-uploaded: it has no manifest" if found.objects else "does not exist"
        return [f"{where}: {state}"]
    wanted = {file.name: file for file in found.manifest.files}
    wrong: list[str] = []
    for name, file in wanted.items():
        stored = found.objects.get(name)
        if stored is None:
            wrong.append(f"{where}/{name}: is missing")
        elif stored.size != file.size:
            wrong.append(f"{where}/{name}: size must be {file.size}, got {stored.size}")
        elif stored.crc32c != file.crc32c:
            wrong.append(f"{where}/{name}: crc32c must be {file.crc32c}, got {stored.crc32c}")
    extra = sorted(set(found.objects) - set(wanted))
    wrong += [f"{where}/{name}: is not in the manifest" for name in extra]
    if is_deep:
        named = {line.partition(": ")[0] for line in wrong}
        readable = [f for f in wanted.values() if f"{where}/{f.name}" not in named]
        progress.begin(f"read gs://{home.bucket}", sum(file.size for file in readable))
        read = partial(_deep, store, home, version, crew, progress)
        wrong += [line for line in crew.run([partial(read, file) for file in readable]) if line]
    return wrong


def _deep(
    store: Store, home: Home, version: str, crew: Crew, progress: Progress, file: FileEntry
) -> str:
    sums = Checksums()
    for chunk in store.chunks(home.bucket, home.object(version, file.name), file.size):
        crew.check()
        sums.update(chunk)
        progress.add(len(chunk))
    if sums.sha256 == file.sha256:
        return ""
    where = f"{home.uri}/{version}/{file.name}"
    return f"{where}: sha256 must be {file.sha256}, got {sums.sha256}"
