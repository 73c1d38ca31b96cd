"""`gke-inference website`: the documentation as a site with a search."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from scripts.terminal.console import CommandError, console, one_line, step
from scripts.terminal.output_files import check_folder
from scripts.website.assemble import assemble, unlisted
from scripts.website.versions import VERSIONS, add_version, check_version
from twin.host.paths import REPOSITORY

_COLORS = re.compile(r"\x1b\[[0-9;]*m")
_PLACE = re.compile(r"\[ (\S+:\d+):\d+ \]")
FOLDER = REPOSITORY / "build" / "site"


def build(target: Path, *, has_versions: bool = False) -> int:
    """Build the site and return its number of pages.

    Args:
        target: folder for the sources; the site is in its folder `html`.
        has_versions: whether a list of versions is beside the folder that will have the site.

    Raises:
        CommandError: a page is not in the contents, a link leads nowhere, or Zensical refuses a
            page.
    """
    missing = unlisted(REPOSITORY)
    if missing:
        raise CommandError(
            f"docs/README.md: each page must be listed, got none for {', '.join(missing)}"
        )
    pages = assemble(REPOSITORY, target, has_versions=has_versions)
    done = subprocess.run(
        [*_zensical("build"), "--strict", "--clean"],
        cwd=target,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CommandError(f"Zensical refuses a page: {_findings(done.stdout + done.stderr)}")
    return pages


def website(
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the site until Ctrl-C; shows its address.")
    ] = False,
    port: Annotated[
        int, typer.Option(help="Port of --serve on 127.0.0.1.", min=1, max=65535)
    ] = 8000,
    into: Annotated[
        Path | None,
        typer.Option(help="Add the site to this folder as the version --as, with a selector."),
    ] = None,
    version: Annotated[
        str | None,
        typer.Option(
            "--as", help="Version for --into: main, or a release such as 0.1.0. Default: main."
        ),
    ] = None,
) -> None:
    """Build the documentation as a site with a search, in build/site/html.

    The pages are those of docs/, in the order of docs/README.md. The site makes no request to
    another host. With --into, it is one of several versions: publish that folder.
    """
    if version is not None:
        if into is None:
            raise CommandError("--as: must be given with --into, the folder with the versions")
        check_version(version)
    if into is not None and serve:
        raise CommandError("--into: must not be given with --serve, which serves one version")
    if into is not None and not into.is_dir():
        check_folder("--into", into)
    with step("Building the site"):
        pages = build(FOLDER, has_versions=into is not None)
    if into is not None:
        name = version or "main"
        names = add_version(FOLDER / "html", into, name)
        console.print(f"{pages} pages: {into / name}; {VERSIONS}: {', '.join(names)}")
        return
    console.print(f"{pages} pages: {(FOLDER / 'html' / 'index.html').relative_to(REPOSITORY)}")
    if serve:
        subprocess.run(
            [*_zensical("serve"), "--dev-addr", f"127.0.0.1:{port}"], cwd=FOLDER, check=False
        )


def _findings(output: str) -> str:
    """Return the pages and lines that Zensical names, or its whole output, as one line."""
    plain = _COLORS.sub("", output)
    found = _PLACE.findall(plain)
    return ", ".join(dict.fromkeys(found)) if found else one_line(plain)


def _zensical(command: str) -> list[str]:
    return [sys.executable, "-m", "zensical", command, "--config-file", "mkdocs.yml"]
