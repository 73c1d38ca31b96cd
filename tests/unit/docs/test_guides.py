"""Guides: their length, their costs and their pictures."""

import re
import subprocess

import pytest

from scripts.docs.cost_blocks import page_with_costs, pages_with_costs
from scripts.docs.flows import flows, picture
from scripts.plan.cost import cost
from scripts.website.contents import read_contents
from tests.platform.tutorial.console import commands, unlike
from twin.host.paths import REPOSITORY

DOCS = REPOSITORY / "docs"
LONGEST = 1500
MADE = re.compile(r"<!-- cost of .*?<!-- end of cost -->", re.DOTALL)
TARGETS = re.compile(r"\]\([^)]*\)")
WITHOUT_COST = {
    "api-errors": "a list of errors",
    "apis": "a list of paths",
    "deleting-user-data": "what a deletion removes",
    "distance": "a calculation on your machine",
    "engine-args": "flags of an engine",
    "faster-images": "settings that compute less",
    "faults": "results of tests",
    "images-api": "fields of a request",
    "kv-cache-settings": "rules of the settings whose cost is in kv-cache",
    "launcher": "a part of the engine's container",
    "predictive-requests": "paths and calls",
    "retries": "time-outs",
    "team-bills": "a division of the cost",
}
"""Pages about a running platform that name nothing one pays for, each with what they are."""
GROUPS = {
    "Capacity", "Models", "Storage", "Images and videos", "Traffic", "Regions and other providers",
    "Batches and events", "Clients", "Observe",
}  # fmt: skip
BOX = {"outside": {"a": "one", "b": "two", "c": "three"}}


def guides(groups=None):
    """Return the pages of the guides in the contents, by name."""
    section = next(one for one in read_contents(DOCS / "README.md") if one.title == "Guides")
    found = [
        page for one in section.groups if not groups or one.title in groups for page in one.pages
    ]
    return {page.stem: (DOCS / page).read_text() for page in found if page.suffix == ".md"}


def words(text):
    """Return the number of words, without generated tables and the targets of links."""
    said = TARGETS.sub("]", MADE.sub("", text)).split()
    return sum(any(letter.isalnum() for letter in word) for word in said)


def drawn(rows, arrows, boxes=None):
    return picture(
        "test", {"title": "A title", "rows": rows, "boxes": boxes or BOX, "arrows": arrows}
    )


@pytest.mark.parametrize("name", [*sorted(guides()), "architecture", "comparison", "glossary"])
def test_a_guide_is_short_enough_to_read(name):
    assert words((DOCS / f"{name}.md").read_text()) <= LONGEST


def test_a_guide_to_what_runs_states_what_it_costs():
    pages = guides(GROUPS)
    found = {name for name, text in pages.items() if not re.search(r"^## Cost", text, re.MULTILINE)}
    assert found - {"README"} == set(WITHOUT_COST)


def test_a_cost_is_that_of_the_stack_today(tmp_path):
    page = tmp_path / "page.md"
    stack = REPOSITORY / "stacks" / "Pulumi.local.yaml"
    page.write_text(f"before\n<!-- cost of {stack}: NAT -->\nold\n<!-- end of cost -->\nafter\n")
    shown = page_with_costs(page)
    assert "old" not in shown
    assert re.search(r"\| stack .*local.* \| 8,\d{3} \| 16,\d{3} \| 32,\d{3} \|", shown)
    assert re.search(r"\| NAT gateway \| 2\.\d\d \| 4\.\d\d \| 7\.\d\d \|", shown)
    assert "Without a published price, and in no total: Cloud Armor policy." in shown
    assert "gke-inference cost --stack local\n" in shown


def test_a_cost_that_has_a_price_in_some_regions_is_not_called_unpriced(tmp_path):
    page = tmp_path / "page.md"
    stack = DOCS / "examples" / "nearest-region" / "Pulumi.nearest-region.yaml"
    page.write_text(f"<!-- cost of {stack}: external load balancer -->\n<!-- end of cost -->\n")
    shown = " ".join(page_with_costs(page).split())
    forwarding = "external load balancer, forwarding rule"
    assert f"| {forwarding} | 18 or more | 18 or more | 18 or more |" in shown
    assert f"Included only in part, for lack of a published price: {forwarding}." in shown
    assert shown.count(forwarding) == 2


def test_the_page_on_costs_shows_what_the_command_prints(capsys):
    (first, *_) = commands((DOCS / "cost.md").read_text())
    assert first.line == "gke-inference cost --stack local"
    cost("local")
    assert unlike(first.shown, capsys.readouterr().out) == ""


def test_a_part_that_a_stack_does_not_have_is_refused(tmp_path):
    page = tmp_path / "page.md"
    stack = REPOSITORY / "stacks" / "Pulumi.local.yaml"
    page.write_text(f"<!-- cost of {stack}: Filestore -->\n<!-- end of cost -->\n")
    with pytest.raises(ValueError, match="'Filestore' must be the beginning of a part"):
        page_with_costs(page)


def test_every_example_of_a_cost_is_found():
    started = {page for page in DOCS.glob("*.md") if "<!-- cost of " in page.read_text()}
    assert {f"docs/{page.name}" for page in started} == set(pages_with_costs())


def test_each_picture_is_on_a_page_with_its_title_as_alternative_text():
    pages = "\n".join(page.read_text() for page in DOCS.glob("*.md"))
    for path, made in flows().items():
        found = re.search(r"<title>(.*)</title>", made())
        assert found
        title = found[1].replace("&amp;", "&")
        assert f"![{title}]({path.removeprefix('docs/')})" in pages


def test_a_picture_follows_the_color_scheme_of_its_reader():
    made = drawn(["a b", ". c"], ["a > b", "b .> c", "a <> c"])
    assert "prefers-color-scheme:dark" in made
    assert made.count("<polyline") == 3
    assert made.count("marker-start") == 1
    assert made.count('class="if"') == 1


@pytest.mark.parametrize(
    ("rows", "arrows", "boxes", "message"),
    [
        (["a b c"], ["a > c"], None, "must join neighbors"),
        (["a b c"], ["a - b"], None, "must be like 'a > b'"),
        (["a b c d"], [], None, "got none for"),
        (["a"], [], {"google": {"a": "x" * 40}}, "at most 25 characters"),
        (["a"], [], {"google": {"a": "x | " + "y" * 40}}, "at most 33 characters"),
    ],
)
def test_a_picture_that_would_be_wrong_is_refused(rows, arrows, boxes, message):
    with pytest.raises(ValueError, match=message):
        drawn(rows, arrows, boxes)


def test_the_change_whose_verdict_is_shown_fits_the_stack():
    change = DOCS / "examples" / "verdict" / "change.diff"
    done = subprocess.run(
        ["git", "apply", "--check", change],
        check=False,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_the_verdict_on_the_page_is_that_of_the_comment():
    page = (DOCS / "verdict-in-ci.md").read_text()
    quoted = [line[2:] for line in page.splitlines() if line.startswith("> ")]
    comment = (DOCS / "examples" / "verdict" / "comment.md").read_text().replace("### ", "")
    plain = comment.replace("## ", "").replace("*", "")
    assert len(quoted) > 8
    assert [line for line in quoted if line.replace("*", "") not in plain] == []
