"""`gke-inference audit`: known vulnerabilities of the locked packages, or of a built image."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gke_inference.catalogue.versions import version_key
from scripts.shared.tool_setup import ensure_tools
from scripts.terminal.console import CommandError, console
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.tables import Column, Listing, figure, print_table
from twin.host.paths import REPOSITORY
from twin.toolchain.find import tool

ACCEPTED: Final = "audit.toml"
"""File of the checkout with the vulnerabilities that were reviewed and accepted, each with its
reason and a date until which that holds: configuration of osv-scanner."""
_FOLDERS: Final = ("osv-scalibr", "osv-scanner")
"""Folders in which osv-scanner looks for a database: since v2.5.0, and before."""
_FOUND: Final = (0, 1)
"""Exit codes of osv-scanner with a result: nothing found, something found."""
_NO_PACKAGES: Final = 128
_LOCKS: Final = {"*.lock": "requirements.txt", "*.lock.txt": "requirements.txt", "go.mod": "go.mod"}
"""Lock files by pattern, with the name of their format in osv-scanner."""
_NOT_SOURCES: Final = frozenset({"build", "node_modules"})


@dataclass(frozen=True)
class Finding:
    """A known vulnerability of one package in one file."""

    package: str
    version: str
    advisory: str
    """Identifier in the OSV database, such as `GHSA-c3h9-896r-86jm`."""
    severity: float | None
    """CVSS score, 0 to 10; None if the advisory has none."""
    fixed: str
    """Lowest version with the fix that is newer than `version`; empty if there is none."""
    where: str
    """Lock file, or place in the image."""


def lock_files(root: Path = REPOSITORY) -> dict[Path, str]:
    """Return the lock files of a checkout, with their formats as osv-scanner names them."""
    files = sorted(_sources(root))
    return {file: kind for pattern, kind in _LOCKS.items() for file in files if file.match(pattern)}


def _sources(root: Path) -> Iterator[Path]:
    """Yield the files of a checkout that nothing generated."""
    for folder, below, files in os.walk(root):
        below[:] = [each for each in below if not _is_generated(each)]  # these are not entered
        yield from (Path(folder, each) for each in files if not _is_generated(each))


def _is_generated(name: str) -> bool:
    return name.startswith(".") or name in _NOT_SOURCES


def source_arguments(files: dict[Path, str]) -> list[str]:
    """Return osv-scanner's arguments for lock files; see `lock_files`.

    The locks are complete, so nothing is resolved, and no Go code is built.
    """
    named = (f"--lockfile={kind}:{file}" for file, kind in files.items())
    return ["source", "--no-resolve", "--no-call-analysis=all", *named]


def scan(arguments: Sequence[str], database: Path | None, root: Path = REPOSITORY) -> list[Finding]:
    """Return what osv-scanner finds, most severe first.

    Args:
        arguments: Source or image to scan, in osv-scanner's words.
        database: Folder with a downloaded OSV database; None for osv.dev.
        root: Checkout whose accepted vulnerabilities are left out.

    Raises:
        CommandError: osv-scanner has no result, for example because the database is out of reach.
        twin.toolchain.ToolError: osv-scanner cannot be obtained.
    """
    argv = [str(tool("osv-scanner")), "scan", *arguments, "--format=json"]
    if (root / ACCEPTED).is_file():
        argv.append(f"--config={root / ACCEPTED}")
    with tempfile.TemporaryDirectory() as folder:
        if database is not None:
            for name in _FOLDERS:
                Path(folder, name).symlink_to(database.resolve())
            # --offline-vulnerabilities alone checks nothing in v2.5.0, and reports success
            argv += ["--offline", f"--local-db-path={folder}"]
        answer = subprocess.run(argv, capture_output=True, text=True, check=False)
    if answer.returncode == _NO_PACKAGES:
        raise CommandError("osv-scanner found no packages to check")
    if answer.returncode not in _FOUND:
        raise CommandError(_reason(answer.stderr, database))
    found = _findings(json.loads(answer.stdout), root)
    return sorted(found, key=lambda one: (-(one.severity or 0.0), one.package, one.where))


def _reason(stderr: str, database: Path | None) -> str:
    """Return why there is no result: the last line of the program's log, and what to do."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    last = lines[-1] if lines else "osv-scanner ended without a message"
    remedy = (
        "--database checks without a network"
        if database is None
        else f"--database must have ECOSYSTEM/all.zip for each kind of package, got '{database}'"
    )
    return f"{last}; nothing was audited. {remedy}"


def _findings(report: dict[str, Any], root: Path) -> Iterator[Finding]:
    for result in report["results"]:
        where = _place(result["source"]["path"], root)
        for each in result["packages"]:
            package = each["package"]
            for group in each["groups"]:
                advisory = group["ids"][0]
                severity = group.get("max_severity")
                yield Finding(
                    package["name"],
                    package["version"],
                    advisory,
                    float(severity) if severity else None,
                    _fixed(each["vulnerabilities"], group["ids"], package),
                    where,
                )


def _place(path: str, root: Path) -> str:
    file = Path(path)
    return str(file.relative_to(root)) if file.is_relative_to(root) else path


def _fixed(advisories: list[dict[str, Any]], ids: list[str], package: dict[str, Any]) -> str:
    """Return the lowest version of a package that is newer than its own and has the fix.

    An advisory names a version for each maintained branch.
    """
    versions = [
        event["fixed"]
        for advisory in advisories
        if advisory["id"] in ids
        for affected in advisory.get("affected", ())
        if affected.get("package", {}).get("name") == package["name"]
        for span in affected.get("ranges", ())
        for event in span.get("events", ())
        if "fixed" in event
    ]
    own = version_key(str(package["version"]))
    newer = [each for each in versions if version_key(each) > own]
    return min(newer, key=version_key, default="")


def _table(found: list[Finding]) -> Listing:
    table = Listing(
        "PACKAGE", "VERSION", "ADVISORY", figure("CVSS"), "FIXED IN", Column("WHERE", spare=1)
    )
    for one in found:
        score = "-" if one.severity is None else f"{one.severity:.1f}"
        cells = (one.package, one.version, one.advisory, score, one.fixed or "-", one.where)
        table.add_row(*cells)
    return table


def audit(
    image: Annotated[
        Path | None,
        typer.Option(
            help="Check the layers of this image instead: an archive of `crane pull` or"
            " `docker save`."
        ),
    ] = None,
    database: Annotated[
        Path | None,
        typer.Option(help="Folder with a downloaded OSV database, instead of osv.dev."),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check the locked Python and Go packages for known vulnerabilities. Exits 1 if there are any.

    Sends the names and versions of the packages to osv.dev unless --database is given.
    """
    for option, path in (("--image", image), ("--database", database)):
        if path is not None and not path.exists():
            raise CommandError(f"{option}: must exist, got '{path}'")
    ensure_tools("audit")
    if image is None:
        files = lock_files()
        arguments = source_arguments(files)
        subject = f"{len(files)} lock files"
    else:
        arguments = ["image", "--archive", str(image)]
        subject = str(image)
    found = scan(arguments, database)
    if output.is_data:
        print_data([asdict(one) for one in found], output)
    else:
        packages = len({(one.package, one.version) for one in found})
        counted = f"{len(found)} known vulnerabilities of {packages} packages"
        console.print(f"{subject}: {counted if found else 'no known vulnerability'}", markup=False)
        if found:
            console.print()
            print_table(_table(found))
    if found:
        raise typer.Exit(ExitCode.CHECK_FAILED)
