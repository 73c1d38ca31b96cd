"""Known vulnerabilities, as osv-scanner finds them in lock files and in the layers of an image.

The short form is tests/unit/scripts/test_audit.py, with a report that osv-scanner wrote here.
"""

import json
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from scripts.check.audit import ACCEPTED, lock_files, scan, source_arguments
from scripts.terminal.console import CommandError
from twin.toolchain import needed_by, provide
from twin.toolchain.find import tool

pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(1800)]

LEAKY = "leaky-package"
MODULE = "example.com/leaky"


def advisory(number: int, ecosystem: str, package: str, fixed: str) -> dict:
    return {
        "schema_version": "1.6.0",
        "id": f"TEST-2026-{number}",
        "modified": "2026-01-01T00:00:00Z",
        "summary": f"{package} leaks",
        "severity": [{"type": "CVSS_V3", "score": "CVSS:3.1/AV:N/AC:L/PR:N/UI:N/S:U/C:H/I:N/A:N"}],
        "affected": [
            {
                "package": {"ecosystem": ecosystem, "name": package},
                "ranges": [
                    {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": fixed}]}
                ],
            }
        ],
    }


@pytest.fixture(scope="module", autouse=True)
def program() -> None:
    provide(needed_by("audit", "images"), lambda *_: None, lambda _: None)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one advisory for a Python package, and one for a Go module."""
    root = tmp_path_factory.mktemp("database")
    for number, (ecosystem, package) in enumerate([("PyPI", LEAKY), ("Go", MODULE)], 1):
        folder = root / ecosystem
        folder.mkdir(parents=True)
        with zipfile.ZipFile(folder / "all.zip", "w") as archive:
            entry = advisory(number, ecosystem, package, "2.0.0")
            archive.writestr(f"{entry['id']}.json", json.dumps(entry))
    return root


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with a Python lock and a go.mod, each with a leaky package."""
    (tmp_path / "requirements.lock").write_text(f"{LEAKY}==1.0.0\nsound-package==1.0.0\n")
    module = f"module example.com/mine\n\ngo 1.26\n\nrequire {MODULE} v1.4.0\n"
    (tmp_path / "go.mod").write_text(module)
    return tmp_path


def sources(root: Path) -> list[str]:
    return source_arguments(lock_files(root))


def test_a_locked_package_with_an_advisory_is_found_with_the_version_that_fixes_it(
    checkout: Path, database: Path
) -> None:
    found = {one.package: one for one in scan(sources(checkout), database, checkout)}
    assert found.keys() == {LEAKY, MODULE}
    leaky = found[LEAKY]
    assert (leaky.version, leaky.advisory, leaky.fixed) == ("1.0.0", "TEST-2026-1", "2.0.0")
    assert (leaky.severity, leaky.where) == (7.5, "requirements.lock")
    assert (found[MODULE].version, found[MODULE].where) == ("1.4.0", "go.mod")


def test_an_accepted_vulnerability_is_left_out_until_its_date(
    checkout: Path, database: Path
) -> None:
    (checkout / ACCEPTED).write_text(
        '[[IgnoredVulns]]\nid = "TEST-2026-1"\nreason = "the parser is not used"\n'
        '[[IgnoredVulns]]\nid = "TEST-2026-2"\nignoreUntil = 2026-01-01\nreason = "until a fix"\n'
    )
    found = scan(sources(checkout), database, checkout)
    assert [one.advisory for one in found] == ["TEST-2026-2"]


def test_an_empty_database_is_an_error_and_not_a_clean_result(
    checkout: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(CommandError, match=r"nothing was audited\. --database must have"):
        scan(sources(checkout), empty, checkout)


def test_the_layers_of_an_image_are_checked(tmp_path: Path, database: Path) -> None:
    metadata = tmp_path / "METADATA"
    metadata.write_text(f"Metadata-Version: 2.1\nName: {LEAKY}\nVersion: 1.0.0\n")
    layer = tmp_path / "layer.tar"
    folder = f"usr/lib/python3.12/site-packages/{LEAKY.replace('-', '_')}-1.0.0.dist-info"
    with tarfile.open(layer, "w") as archive:
        archive.add(metadata, f"{folder}/METADATA")
    image = tmp_path / "image.tar"
    argv = [tool("crane"), "append", "-f", layer, "-t", "example.com/image:1", "-o", image]
    subprocess.run(argv, check=True, capture_output=True)
    (found,) = scan(["image", "--archive", str(image)], database, tmp_path)
    assert (found.package, found.version) == (LEAKY, "1.0.0")
