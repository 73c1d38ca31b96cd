import re

import pytest
import typer

from policies.rules import policies
from scripts.app import COMMANDS
from scripts.docs import command as docs
from scripts.docs.command import PAGES, stale_pages
from scripts.terminal.exit_codes import CHECKS, ExitCode
from scripts.website.links import links, without_code
from twin.host.paths import REPOSITORY
from twin.world.rules import all_rules

HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
WRITTEN = [
    REPOSITORY / "README.md",
    REPOSITORY / "CHANGELOG.md",
    REPOSITORY / "CONTRIBUTING.md",
    REPOSITORY / "SECURITY.md",
    REPOSITORY / "changelog.d" / "README.md",
    REPOSITORY / "bench" / "README.md",
    *sorted((REPOSITORY / "docs").rglob("*.md")),
    REPOSITORY / "twin" / "rules.md",
]


def anchors(text):
    """Return the anchors that a page's headings get, as GitHub and GitLab make them."""
    found = set()
    for heading in HEADING.findall(without_code(text)):
        words = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
        found.add(words.strip().replace(" ", "-"))
    return found


def leads_somewhere(page, target):
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if not file.exists():
        return False
    return not anchor or file.suffix != ".md" or anchor in anchors(file.read_text())


def test_no_generated_page_is_stale():
    assert stale_pages() == [], "run `make docs`"


def test_a_page_that_was_edited_by_hand_is_stale(tmp_path, monkeypatch):
    pages = {name: PAGES[name] for name in ("twin/rules.md", "docs/limits.md", "docs/policies.md")}
    monkeypatch.setattr(docs, "PAGES", pages)
    for name, page in pages.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(page())
    assert stale_pages(tmp_path) == []
    edited = tmp_path / "docs" / "policies.md"
    edited.write_text(edited.read_text() + "more\n")
    (tmp_path / "twin" / "rules.md").unlink()
    assert stale_pages(tmp_path) == ["twin/rules.md", "docs/policies.md"]


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_relative_link_and_image_leads_somewhere(page):
    missing = [target for target in links(page.read_text()) if not leads_somewhere(page, target)]
    assert missing == []


def test_anchors_are_those_of_github():
    assert anchors("## 3. Take the TPUs `away`\n") == {"3-take-the-tpus-away"}


def test_every_policy_is_on_the_page_of_policies_once():
    text = PAGES["docs/policies.md"]()
    for name in policies():
        assert text.count(f"\n| `{name}` |") == 1


def test_every_subcommand_and_its_options_are_on_the_page_of_the_program():
    text = PAGES["docs/reference/cli.md"]()
    for name in COMMANDS:
        assert f"\n## {name}\n" in text
    for name in ("images pin", "images build", "kernels tune"):
        assert f"\n### {name}\n" in text
    for option in ("--stack", "--scenario", "--speed", "--force", "--comment", "--ci", "--dry-run"):
        assert f"`{option}" in text


def test_every_rule_of_the_twin_is_on_its_page_and_each_area_is_one_table():
    text = PAGES["twin/rules.md"]()
    for name in all_rules():
        assert text.count(f"\n| `{name}` |") == 1
    headings = re.findall(r"^## (\S+)", text, re.MULTILINE)
    assert len(headings) == len(set(headings))


def test_descriptions_of_components_are_text_and_not_code():
    for line in PAGES["docs/reference/components.md"]().splitlines():
        assert not line.startswith("    "), line


def test_mappings_of_a_stack_link_to_what_they_hold():
    text = PAGES["docs/reference/stack.md"]()
    assert "| `models` | mapping of name to [Model](#model) |" in text


def test_a_page_that_is_out_of_date_fails_the_check_and_is_not_written(monkeypatch, capsys):
    monkeypatch.setattr(docs, "stale_pages", lambda: ["docs/policies.md"])
    with pytest.raises(typer.Exit) as ended:
        docs.docs(check=True)
    assert ended.value.exit_code == ExitCode.CHECK_FAILED
    assert capsys.readouterr().out == "out of date: docs/policies.md; run make docs\n"


def test_the_page_of_exit_codes_has_each_code_and_each_check_once():
    text = PAGES["docs/reference/exit-codes.md"]()
    for code in ExitCode:
        assert text.count(f"\n| {code.value} | {code.__doc__} |") == 1
    for command, reason in CHECKS.items():
        assert text.count(f"\n| `{command}` | {reason} |") == 1
        assert command.split()[0] in COMMANDS
