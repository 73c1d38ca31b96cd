"""The site of several versions: the folder, and the list that the selector reads."""

import json

import pytest

from scripts.terminal.console import CommandError
from scripts.website.assemble import assemble
from scripts.website.command import website
from scripts.website.versions import add_version, check_version
from twin.host.paths import REPOSITORY


@pytest.fixture
def site(tmp_path):
    """A built site of one page."""
    folder = tmp_path / "html"
    folder.mkdir()
    (folder / "index.html").write_text("first")
    return folder


def test_versions_are_listed_as_mike_does_main_first_then_the_newest_release(site, tmp_path):
    folder = tmp_path / "all"
    for name in ("0.9.0", "main", "0.10.0"):
        names = add_version(site, folder, name)
    assert names == ["main", "0.10.0", "0.9.0"]
    listed = json.loads((folder / "versions.json").read_text())
    assert listed[1] == {"version": "0.10.0", "title": "0.10.0", "aliases": []}
    assert "url=0.10.0/" in (folder / "index.html").read_text()


def test_a_version_replaces_its_older_site_and_no_other(site, tmp_path):
    folder = tmp_path / "all"
    add_version(site, folder, "main")
    assert "url=main/" in (folder / "index.html").read_text()
    add_version(site, folder, "0.1.0")
    (site / "index.html").write_text("second")
    (folder / "main" / "gone.html").touch()
    add_version(site, folder, "main")
    assert [each.name for each in (folder / "main").iterdir()] == ["index.html"]
    assert (folder / "main" / "index.html").read_text() == "second"
    assert (folder / "0.1.0" / "index.html").read_text() == "first"


@pytest.mark.parametrize("name", ["latest", "0.1", "v0.1.0", "../main", ""])
def test_a_version_is_main_or_a_release(name):
    with pytest.raises(CommandError) as refused:
        check_version(name)
    assert str(refused.value) == f"--as: must be main or a release such as 0.1.0, got '{name}'"


def test_a_folder_of_versions_that_is_a_file_is_refused_before_the_site_is_built(tmp_path):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(CommandError, match=r"^--into: must be a writable folder, got "):
        website(into=file)


def test_a_version_without_the_folder_for_it_is_refused():
    with pytest.raises(CommandError, match=r"^--as: must be given with --into, "):
        website(version="0.1.0")


def test_the_search_leaves_out_the_contents_and_notes_for_maintainers(tmp_path):
    assemble(REPOSITORY, tmp_path, has_versions=True)
    pages = tmp_path / "docs"
    mark = "---\nsearch:\n  exclude: true\n"
    for name in ("contents", "soak", "adr/README", "adr/0034-streams"):
        assert (pages / f"{name}.md").read_text().startswith(mark), name
    for name in ("guard", "contributing", "tutorial/1-the-first-answer", "twin/rules"):
        assert not (pages / f"{name}.md").read_text().startswith("---"), name
    assert "\nextra:\n  version: {provider: mike}\n" in (tmp_path / "mkdocs.yml").read_text()
