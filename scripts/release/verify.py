"""`python -m scripts.release.verify FOLDER`: check the files of a release against a checkout.

Run it in a checkout of the release's tag. It checks each file against SHA256SUMS, and the
provenance against the files and the commit that is checked out. With `--key` it checks the
signature of SHA256SUMS, which shows who made the files. With `--rebuild` it builds them again and
compares, which shows that they come from the commit.
"""

import re
import tempfile
from pathlib import Path
from typing import Annotated, Final

import typer

from scripts.delivery.signing import is_signed, public_key_of
from scripts.main import invoke, run_and_exit
from scripts.release.build import build
from scripts.release.checksums import CHECKSUMS, SIGNATURE, checksums_of, differences
from scripts.release.provenance import PROVENANCE, STATED, check_statement, statement_of
from scripts.release.sources import Commit, export, head
from scripts.terminal.console import CommandError, console, step
from twin.host.paths import REPOSITORY

_LINE: Final = re.compile(r"([0-9a-f]{64})  ([\w.+-]+)")


def check_files(folder: Path, commit: Commit, sources: Path) -> dict[str, str]:
    """Check the files of a release, and return the checksum of each by name.

    Args:
        folder: Files of the release.
        commit: The commit that they should come from.
        sources: Files of that commit; see `STATED`.

    Raises:
        CommandError: A file, the list of checksums or the provenance differs; one line names it.
    """
    for name in (CHECKSUMS, PROVENANCE):
        if not (folder / name).is_file():
            raise CommandError(f"{folder}: must have {name}, got no such file")
    found, listed = checksums_of(folder), _listed(folder)
    for name in sorted({*found, *listed}):
        wanted, got = listed.get(name, "none"), found.get(name, "no such file")
        if got != wanted:
            raise CommandError(f"{name}: the checksum must be {wanted} ({CHECKSUMS}), got {got}")
    built = {name: checksum for name, checksum in found.items() if name != PROVENANCE}
    text = (folder / PROVENANCE).read_text(encoding="utf-8", errors="replace")
    check_statement(text, statement_of(sources, commit, built))
    return found


def check_signature(folder: Path, key: Path) -> None:
    """Check the signature of a release's checksums.

    Args:
        folder: Files of the release.
        key: PEM file with the public key of whoever signs releases.

    Raises:
        CommandError: There is none, or it is of another text or by another key.
    """
    public_key = public_key_of("--key", key)
    file = folder / SIGNATURE
    if not file.is_file():
        raise CommandError(f"{folder}: must have {SIGNATURE} for --key, got no such file")
    encoded = file.read_text(encoding="utf-8", errors="replace").strip()
    if not is_signed((folder / CHECKSUMS).read_bytes(), encoded, public_key):
        raise CommandError(f"{SIGNATURE}: must be the signature of {CHECKSUMS} by '{key}'")


def check_rebuilt(found: dict[str, str], commit: Commit) -> None:
    """Build a commit again, and compare.

    Raises:
        CommandError: A file differs; one line names all that do.
    """
    with tempfile.TemporaryDirectory() as made:
        build(REPOSITORY, commit, Path(made))
        differing = differences(found, checksums_of(Path(made)))
    if differing:
        raise CommandError(f"these are not the files of {commit.sha}: {'; '.join(differing)}")


def _listed(folder: Path) -> dict[str, str]:
    listed: dict[str, str] = {}
    lines = (folder / CHECKSUMS).read_text(encoding="utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise CommandError(
                f"{CHECKSUMS}:{number}: must be a SHA-256 checksum, two spaces and a name, "
                f"got {line[:80]!r}"
            )
        listed[match.group(2)] = match.group(1)
    return listed


def verify(
    folder: Annotated[Path, typer.Argument(help="Folder with the files of a release.")],
    key: Annotated[
        Path | None,
        typer.Option(help="Also check the signature with this public key, a PEM file."),
    ] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Also build the commit again, and compare.")
    ] = False,
) -> None:
    """Check the files of a release against their checksums, provenance and this checkout."""
    if not folder.is_dir():
        raise CommandError(f"FOLDER: must be a folder, got {folder}")
    commit = head(REPOSITORY)
    with tempfile.TemporaryDirectory() as made:
        export(REPOSITORY, commit, Path(made), *STATED)
        found = check_files(folder, commit, Path(made))
    console.print(f"{len(found)} files match {CHECKSUMS}, and the provenance of {commit.sha}.")
    if key is not None:
        check_signature(folder, key)
        console.print(f"{SIGNATURE} is by the owner of {key}.", markup=False, soft_wrap=True)
    elif (folder / SIGNATURE).is_file():
        console.print("Signature not checked: --key shows who signed these files.")
    if rebuild:
        with step("Building the commit again"):
            check_rebuilt(found, commit)
        console.print("A build of this commit has the same files.")
    else:
        console.print("Not rebuilt: --rebuild shows that the files come from this commit.")


def main() -> None:
    """Check and exit with the exit code; an error is one line on standard error."""
    app = typer.Typer(add_completion=False)
    app.command()(verify)
    run_and_exit(lambda arguments: invoke(app, arguments, "python -m scripts.release.verify"))


if __name__ == "__main__":
    main()
