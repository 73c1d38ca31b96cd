"""Files that options name: refused before any work is done where they could not be written."""

import os
from collections.abc import Callable
from pathlib import Path

from scripts.console import CommandError


def check_output(option: str, file: Path | None) -> None:
    """Check that a file can be written; nothing is left of the attempt.

    A folder that is not there will be made where it is below the working directory, and nowhere
    else: a slip in a path makes no folders at the root.

    Raises:
        CommandError: it cannot be written; the message says why.
    """
    if file is None:
        return
    try:
        _try(file)
    except OSError as error:
        raise _refusal(option, file, error) from None


def check_folder(option: str, folder: Path) -> None:
    """Check that files can be written into a folder, which may have to be made.

    Raises:
        CommandError: they cannot; the message says why.
    """
    try:
        _try(folder / ".gke-inference-try")
    except OSError as error:
        raise _refusal(option, folder, error, "folder that can be written into") from None


def write_output(option: str, file: Path, write: Callable[[Path], object]) -> None:
    """Make the folder of a file that was checked, and write it.

    Args:
        option: that names the file.
        file: to be written.
        write: writes it.

    Raises:
        CommandError: it cannot be written any more.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file)
    except OSError as error:
        raise _refusal(option, file, error) from None


def _try(named: Path) -> None:
    file = named.resolve() if named.is_symlink() else named  # what is made is what it points to
    if file.is_dir():
        raise IsADirectoryError(None, "it is a folder")
    if file.exists() and not file.is_file():
        return  # a pipe or a terminal: to open it would wait, or write
    if not file.parent.exists():
        _try_folder(file.parent)
        return
    was_there = file.exists()
    with file.open("ab"):
        pass
    if not was_there:
        file.unlink()


def _try_folder(folder: Path) -> None:
    """Check that a folder can be made.

    Raises:
        OSError: it cannot.
    """
    if not folder.resolve().is_relative_to(Path.cwd()):
        raise FileNotFoundError(None, f"there is no folder {folder}")
    there = next(each for each in folder.resolve().parents if each.exists())
    if not there.is_dir():
        raise NotADirectoryError(None, f"{there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(None, f"nothing may be written in {there}")


def _refusal(
    option: str, path: Path, error: OSError, wanted: str = "file that can be written"
) -> CommandError:
    reason = error.strerror or str(error)
    why = reason[:1].lower() + reason[1:]
    return CommandError(f"{option}: must be a {wanted}, got {str(path)!r}: {why}")
