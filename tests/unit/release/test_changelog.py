"""How towncrier makes the fragments of changelog.d a section of CHANGELOG.md."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from twin.host.paths import REPOSITORY

TOWNCRIER = Path(sys.executable).with_name("towncrier")


@pytest.fixture
def project(tmp_path):
    """The configuration and the changelog of this repository, without its fragments."""
    (tmp_path / "changelog.d").mkdir()
    for name in ("pyproject.toml", "CHANGELOG.md", *others()):
        shutil.copy(REPOSITORY / name, tmp_path / name)
    return tmp_path


def others():
    return ("changelog.d/README.md", "changelog.d/template.md.jinja")


def build(project, *options):
    return subprocess.run(
        [TOWNCRIER, "build", "--version", "9.1.0", "--date", "2031-01-02", *options],
        cwd=project, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_release_has_the_breaking_changes_first_and_keeps_older_sections(project):
    before = (project / "CHANGELOG.md").read_text()
    for name, text in {
        "12-canary.added.md": "Models have a `canary`\nwith a share.\n",
        "12.fixed.md": "Answers end.\n",
        "13-names.breaking.md": "`pool` is now `pools`: rename it.\n",
        "14.changed.md": "Starts are faster ([docs](docs/cold-start.md)).\n",
    }.items():
        (project / "changelog.d" / name).write_text(text)
    built = build(project, "--yes")
    assert built.returncode == 0, built.stderr
    mark = "<!-- towncrier release notes start -->\n"
    head, _, older = before.partition(mark)
    assert (project / "CHANGELOG.md").read_text() == (
        f"{head}{mark}\n"
        "## 9.1.0 (2031-01-02)\n\n"
        "### Breaking\n\n- `pool` is now `pools`: rename it.\n\n"
        "### Added\n\n- Models have a `canary`\n  with a share.\n\n"
        "### Changed\n\n- Starts are faster ([docs](docs/cold-start.md)).\n\n"
        "### Fixed\n\n- Answers end.\n"
        f"{older}"
    )
    left = {file.name for file in (project / "changelog.d").iterdir()}
    assert left == {Path(name).name for name in others()}


def test_a_fragment_of_an_unknown_kind_is_refused_by_name(project):
    (project / "changelog.d" / "12-canary.improved.md").write_text("Better.\n")
    refused = build(project, "--draft")
    assert refused.returncode == 1
    assert "12-canary.improved.md" in refused.stdout + refused.stderr


def test_every_fragment_of_this_repository_has_a_name_that_a_release_can_read():
    drafted = build(REPOSITORY, "--draft")
    assert drafted.returncode == 0, drafted.stdout + drafted.stderr
