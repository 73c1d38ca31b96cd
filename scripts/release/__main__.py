"""`make release`: write the files of a release of the checked-out commit to build/release."""

import shutil
import sys

from scripts.release.build import build_twice
from scripts.release.checksums import CHECKSUMS
from scripts.release.sources import committed
from scripts.terminal.console import CommandError
from scripts.terminal.exit_codes import ExitCode
from twin.host.paths import REPOSITORY


def main() -> ExitCode:
    """Build twice and print the checksums; 1 if the builds differ, 2 if one cannot be made."""
    folder = REPOSITORY / "build" / "release"
    try:
        commit = committed(REPOSITORY)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        build_twice(REPOSITORY, commit, folder)
    except CommandError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.code
    print((folder / CHECKSUMS).read_text(), end="")
    print(f"Two builds of {commit.sha} are equal: {folder.relative_to(REPOSITORY)}")
    return ExitCode.OK


if __name__ == "__main__":
    sys.exit(main())
