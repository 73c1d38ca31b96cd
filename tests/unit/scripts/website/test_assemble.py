"""What the site is made of: pages in the order of docs/README.md, and the sources they link to."""

import pytest
import yaml

from scripts.terminal.console import CommandError
from scripts.website.assemble import assemble, unlisted
from twin.host.paths import REPOSITORY

FILES = {
    "README.md": "# Home\n[guide](docs/guide.md)\n",
    "CONTRIBUTING.md": "# Contributing\n",
    "SCOPE.md": "# Scope\n",
    "docs/README.md": (
        "# All\n## Start\n- [Guide](guide.md): first\n### More\n- [Runs](runbooks/README.md)\n"
        "## Examples\n- [One](examples/one)\n"
    ),
    "docs/guide.md": (
        "# The `guide`\n![a](images/a.svg) [code](../src/a.py) [src](../src) [part](#part) "
        "[run](runbooks/slow.md#why)\n## Part\n"
    ),
    "docs/images/a.svg": "<svg/>",
    "docs/runbooks/README.md": "# Runbooks\n",
    "docs/runbooks/slow.md": "# Slow\n## Why\n",
    "docs/examples/one/stack.yaml": "a: 1\n",
    "src/a.py": "text = '''\n```\n'''\n",
    "src/.hidden": "",
}


@pytest.fixture
def repository(tmp_path):
    """A small repository."""
    for name, text in FILES.items():
        file = tmp_path / "repository" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "repository"


def built(repository):
    target = repository.parent / "site"
    assemble(repository, target)
    return {
        file.relative_to(target / "docs").as_posix(): file.read_text()
        for file in (target / "docs").rglob("*")
        if file.is_file()
    }, target / "mkdocs.yml"


def test_links_into_the_repository_lead_to_pages_of_the_site(repository):
    pages, _ = built(repository)
    assert pages["guide.md"] == (
        "# The `guide`\n![a](images/a.svg) [code](source/src/a.py.md) [src](source/src.md) "
        "[part](#part) [run](runbooks/slow.md#why)\n## Part\n"
    )
    assert pages["index.md"] == "# Home\n[guide](guide.md)\n"
    assert set(pages) == {
        "index.md", "contents.md", "contributing.md", "scope.md", "guide.md", "images/a.svg",
        "runbooks/README.md", "runbooks/slow.md", "examples/one.md", "site.css",
        "source/docs/examples/one/stack.yaml.md", "source/src.md", "source/src/a.py.md",
    }  # fmt: skip


def test_a_source_is_shown_whole_and_is_not_in_the_search(repository):
    pages, _ = built(repository)
    assert pages["source/src/a.py.md"] == (
        "---\nsearch:\n  exclude: true\n---\n\n# src/a.py\n\n"
        "````python\ntext = '''\n```\n'''\n````\n"
    )
    assert "- [a.py](src/a.py.md)" in pages["source/src.md"]
    assert ".hidden" not in pages["source/src.md"]


def test_the_navigation_has_the_sections_and_groups_of_the_contents(repository):
    _, configuration = built(repository)
    text = configuration.read_text()
    assert yaml.safe_load(text[text.index("nav:") :])["nav"] == [
        {"Home": "index.md"},
        {"Start": [
            {"All pages": "contents.md"},
            {"The guide": "guide.md"},
            {"More": [{"Runbooks": ["runbooks/README.md", {"Slow": "runbooks/slow.md"}]}]},
        ]},
        {"Examples": [{"one": "examples/one.md"}]},
    ]  # fmt: skip


def test_a_link_that_leads_nowhere_is_refused(repository):
    (repository / "docs" / "guide.md").write_text("# Guide\n[gone](gone.md)\n")
    with pytest.raises(CommandError, match=r"^docs/guide.md: a link must lead to .*, got gone.md$"):
        built(repository)


def test_a_page_that_no_contents_list_is_named(repository):
    (repository / "docs" / "forgotten.md").write_text("# Forgotten\n")
    assert unlisted(repository) == ["docs/forgotten.md"]


def test_a_page_that_is_listed_twice_is_refused(repository):
    contents = repository / "docs" / "README.md"
    contents.write_text(contents.read_text() + "- [Again](guide.md)\n")
    with pytest.raises(CommandError, match=r"each page must be listed once, got guide.md"):
        unlisted(repository)


def test_the_contents_of_this_repository_list_every_page():
    assert unlisted(REPOSITORY) == []
