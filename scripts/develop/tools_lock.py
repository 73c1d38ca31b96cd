"""The lock of official binaries: reads the published checksums and writes twin/tools/lock.yaml."""

from concurrent.futures import ThreadPoolExecutor

from scripts.shared.tool_setup import ensure_tools
from scripts.terminal.console import console
from twin.toolchain.lock import LOCK, read_lock, write_lock
from twin.toolchain.network import NetworkError, check_settings
from twin.toolchain.registry import modules
from twin.toolchain.releases import ReleaseError, downloaded_checksum, published_checksum
from twin.toolchain.sources import Download, downloads, platforms

_WORKERS = 6


def lock_tools() -> list[str]:
    """Write the lock and return the addresses whose checksums could not be read.

    A file without a published checksum is downloaded. An entry keeps its checksum if the published
    one cannot be read or differs.

    Raises:
        twin.toolchain.ToolError: the mirror's address is wrong, or crane cannot be obtained.
    """
    check_settings()
    ensure_tools("images")
    wanted = {
        download.address: download
        for module in modules().values()
        for platform in platforms(module)
        for release in downloads(module, platform)
        for download in release
    }
    problems: dict[str, str] = {}
    checksums = dict(read_lock())

    def read(download: Download) -> None:
        locked = checksums.get(download.address, "")
        try:
            published = _checksum(download)
        except (NetworkError, ReleaseError) as error:
            problems[download.address] = str(error)
            return
        if locked and locked != published:
            problems[download.address] = (
                f"{download.address}: must stay {locked}, as it is locked, got {published}; "
                "delete the entry to accept the new file"
            )
            return
        checksums[download.address] = published

    with ThreadPoolExecutor(_WORKERS) as pool:
        list(pool.map(read, wanted.values()))
    write_lock(checksums)
    for reason in dict.fromkeys(problems.values()):
        console.print(f"not read: {reason}", markup=False, soft_wrap=True)
    count = len(wanted) - len(problems)
    console.print(f"{LOCK.name}: {count} of {len(wanted)} checksums read.")
    return sorted(problems)


def _checksum(download: Download) -> str:
    if download.checksums or download.is_image:
        return published_checksum(download)
    return downloaded_checksum(download)
