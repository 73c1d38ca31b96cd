"""Files and folders that only their user can read, from the moment they exist.

A file that is written first and restricted afterwards can be opened by others in between, and
remains readable through that handle.
"""

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

FILE_MODE = 0o600
FOLDER_MODE = 0o700


def write_private(file: Path, content: str | bytes) -> None:
    """Replace a file atomically by one that only its user can read; its folder must exist.

    Raises:
        OSError: the file cannot be written.
    """
    handle, partial = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".tmp", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:  # `mkstemp` creates it for its user alone
            stream.write(content.encode() if isinstance(content, str) else content)
        Path(partial).replace(file)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def create_private(file: Path) -> None:
    """Create an empty file that only its user can read, unless it exists, and restrict it.

    For files that a library opens itself, such as databases. An existing one is never opened: the
    first handle that a process closes ends all locks that it has on the file (fcntl(2)), those of a
    database that is in use, too.
    """
    try:
        file.chmod(FILE_MODE)  # one that an earlier version created
    except FileNotFoundError:
        handle, partial = tempfile.mkstemp(prefix=f".{file.name}.", suffix=".tmp", dir=file.parent)
        os.close(handle)
        try:
            with suppress(FileExistsError):  # another process was faster
                os.link(partial, file)
        finally:
            Path(partial).unlink()


def private_folder(folder: Path) -> None:
    """Create a folder that only its user can enter, or restrict an existing one.

    A folder with the sticky bit, such as `/tmp`, belongs to all users and remains as it is.
    """
    folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    mode = folder.stat().st_mode
    if stat.S_IMODE(mode) & 0o077 and not mode & stat.S_ISVTX:
        folder.chmod(FOLDER_MODE)
