"""Output files of options, checked before any work."""

import os
from collections.abc import Callable
from pathlib import Path

from scripts.terminal.console import CommandError


def check_output(option: str, file: Path | None) -> None:
    """Check that a file can be written, without creating it.

    A missing folder is created only below the working directory, so that a mistyped path does not
    create folders elsewhere.

    Raises:
        CommandError: The file cannot be written; the message has the reason.
    """
    if file is None:
        return
    try:
        _try(file)
    except OSError as error:
        raise _refusal(option, file, error) from None


def check_folder(option: str, folder: Path) -> None:
    """Check that files can be written to a folder, which may not exist yet.

    Raises:
        CommandError: They cannot; the message has the reason.
    """
    try:
        _try(folder / ".gke-inference-try")
    except OSError as error:
        raise _refusal(option, folder, error, "writable folder") from None


def write_output(option: str, file: Path, write: Callable[[Path], object]) -> None:
    """Write a file after its check, and create its folder.

    Args:
        option: Option that names the file.
        file: File to write.
        write: Function that writes the file.

    Raises:
        CommandError: The file can no longer be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file)
    except OSError as error:
        raise _refusal(option, file, error) from None


def _try(named: Path) -> None:
    file = named.resolve() if named.is_symlink() else named  # the target of the link is created
    if file.is_dir():
        raise IsADirectoryError(None, "it is a folder")
    if file.exists() and not file.is_file():
        return  # a pipe or a terminal: opening it would block or write
    if not file.parent.exists():
        _try_folder(file.parent)
        return
    was_there = file.exists()
    with file.open("ab"):
        pass
    if not was_there:
        file.unlink()


def _try_folder(folder: Path) -> None:
    """Check that a folder can be created.

    Raises:
        OSError: It cannot.
    """
    if not folder.resolve().is_relative_to(Path.cwd()):
        raise FileNotFoundError(
            None, f"no such folder: {folder}; only folders below the current one are created"
        )
    there = next(each for each in folder.resolve().parents if each.exists())
    if not there.is_dir():
        raise NotADirectoryError(None, f"{there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(None, f"{there} is not writable")


def _refusal(option: str, path: Path, error: OSError, rule: str = "writable file") -> CommandError:
    reason = error.strerror or str(error)
    why = reason[:1].lower() + reason[1:]
    return CommandError(f"{option}: must be a {rule}, got {str(path)!r}: {why}")
