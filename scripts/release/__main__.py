"""`make release`: write the files of a release of the checked-out commit to build/release."""

import shutil
from typing import Annotated

import typer

from scripts.delivery.signing import signer_of
from scripts.main import invoke, run_and_exit
from scripts.release.build import build_twice
from scripts.release.checksums import CHECKSUMS, SIGNATURE
from scripts.release.sources import committed
from scripts.shared.google_clients import connect
from scripts.terminal.console import console
from twin.host.paths import REPOSITORY


def release(
    sign: Annotated[
        str,
        typer.Option(
            help="Also sign SHA256SUMS, for `cosign verify-blob --key`: a PEM file, or gcpkms://"
            " and the name of a key version."
        ),
    ] = "",
) -> None:
    """Build the files of a release twice, compare them, and print the checksums.

    Exits 2 if the builds differ.
    """
    folder = REPOSITORY / "build" / "release"
    signer = signer_of(sign, connect) if sign else None
    commit = committed(REPOSITORY)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    build_twice(REPOSITORY, commit, folder)
    listed = (folder / CHECKSUMS).read_bytes()
    console.print(listed.decode(), end="", markup=False, soft_wrap=True)
    place = folder.relative_to(REPOSITORY)
    console.print(f"Two builds of {commit.sha} are equal: {place}", markup=False, soft_wrap=True)
    if signer is not None:
        (folder / SIGNATURE).write_text(signer.encoded_signature(listed), encoding="utf-8")
        console.print(f"Signed: {place / SIGNATURE}", markup=False, soft_wrap=True)


def main() -> None:
    """Build and exit with the exit code; an error is one line on standard error."""
    app = typer.Typer(add_completion=False)
    app.command()(release)
    run_and_exit(lambda arguments: invoke(app, arguments, "python -m scripts.release"))


if __name__ == "__main__":
    main()
