"""Links of pages, as people write them."""

from scripts.website.links import links, with_links

PAGE = (
    "# A page\n[one](a.md) ![two](b.svg) [three](https://example.com) [four][4] "
    "[`five` [x]](e%20f.md)\n"
    "```\n[not](this.md)\n```\n\n[4]: c.md#d\n"
)


def test_links_are_found_outside_code_and_inside_the_repository():
    assert list(links(PAGE)) == ["a.md", "b.svg", "e f.md", "c.md#d"]


def test_links_get_other_targets_and_the_rest_stays():
    changed = with_links(PAGE, lambda target: f"x/{target.replace(' ', '')}")
    assert changed == (
        "# A page\n[one](x/a.md) ![two](x/b.svg) [three](https://example.com) [four][4] "
        "[`five` [x]](x/ef.md)\n```\n[not](this.md)\n```\n\n[4]: x/c.md#d\n"
    )
