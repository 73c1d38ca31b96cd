"""The report of a stack that the real engine previewed, as a real browser shows it."""

import asyncio
from datetime import date

import pytest

from infra.plan import resolve
from infra.reading.load import read
from scripts.check.render import write
from scripts.report.page import page as page_of
from scripts.report.write import write_report
from tests.browser import FAINT, tab

pytestmark = [pytest.mark.needs_tools, pytest.mark.needs_browser]

HEADINGS = (
    "[...document.querySelectorAll('h1, h2, h3')].map(one => one.tagName + ' ' + one.innerText)"
)


@pytest.fixture(scope="module")
def page(states, tmp_path_factory):
    """File of the report of `prod`."""
    folder = tmp_path_factory.mktemp("report")
    write(states("prod"), folder)
    found = page_of(resolve(read("prod")), "prod", folder, day=date(2026, 11, 21))
    return write_report(found, folder)


def seen(browser, page, *, width, dark):
    """Return what the browser asked for and logged, widths, headings, faint text and pictures."""

    async def look():
        async with tab(browser) as one:
            await one.open(page.as_uri(), width=width, dark=dark)
            return {
                "asked": one.requests,
                "logged": one.logged,
                "width": await one.value("document.documentElement.scrollWidth"),
                "headings": await one.value(HEADINGS),
                "faint": await one.value(FAINT),
                "back": await one.value("getComputedStyle(document.body).backgroundColor"),
                "unnamed": await one.value(
                    "[...document.querySelectorAll('svg[role=img]')]"
                    ".filter(one => !one.querySelector('title')?.textContent.trim()).length"
                ),
            }

    return asyncio.run(look())


@pytest.mark.parametrize(
    ("width", "dark"),
    [
        pytest.param(390, False, id="narrow"),
        pytest.param(1280, True, id="wide and dark"),
        pytest.param(390, True, id="narrow and dark", marks=pytest.mark.soak),
        pytest.param(1280, False, id="wide", marks=pytest.mark.soak),
    ],
)
def test_a_browser_shows_it_whole_readable_and_from_one_file(browser, page, width, dark):
    found = seen(browser, page, width=width, dark=dark)
    assert found["asked"] == [page.as_uri()]
    assert found["logged"] == []
    assert found["width"] == width
    assert found["faint"] == []
    assert found["unnamed"] == 0
    assert found["headings"][0] == "H1 acme prod"
    for title in ("What runs where", "Cost", "Risks", "Capacity ladders",
                  "Cold start", "Models", "Routes", "Versions"):  # fmt: skip
        assert f"H2 {title}" in found["headings"]
    assert (found["back"] == "rgb(16, 19, 18)") is dark
