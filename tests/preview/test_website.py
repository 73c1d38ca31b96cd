"""The documentation as a site, as a real browser shows it."""

import asyncio
import functools
import http.server
import json
import threading

import pytest

from scripts.website.command import build
from tests.browser import FAINT, tab

pytestmark = pytest.mark.needs_tools
soak = pytest.mark.soak

SOME = ("index", "capacity", "cost", "diffusion", "reference/stack", "reference/exit-codes")
WIDER = "Math.max(0, document.documentElement.scrollWidth - innerWidth)"
UNNAMED = "[...document.images].filter(one => !one.alt.trim()).map(one => one.src)"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Folder of the site."""
    target = tmp_path_factory.mktemp("website")
    build(target)
    return target / "html"


@pytest.fixture(scope="module")
def address(site):
    """Address of a server of the site."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format, *args):  # noqa: A002  # its name in the base class
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(site))
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def look(browser, urls, *, width, dark=False, faint=False):
    """Return, for each page, what is wrong with it."""

    async def all_of_them():
        found = {}
        async with tab(browser) as one:
            for url in urls:
                one.requests.clear()
                one.logged.clear()
                await one.open(url, width=width, dark=dark)
                found[url.rsplit("/", 1)[1]] = {
                    "wide": await one.value(WIDER),
                    "logged": list(one.logged),
                    "elsewhere": [
                        each for each in one.requests if not each.startswith(("data:", url[:17]))
                    ],
                    "unnamed": await one.value(UNNAMED),
                    "faint": await one.value(FAINT) if faint else [],
                }
        return found

    return asyncio.run(all_of_them())


def faults(found):
    return {
        page: {what: value for what, value in each.items() if value}
        for page, each in found.items()
        if any(each.values())
    }


def test_every_page_is_built_and_the_search_knows_its_sections(site):
    found = json.loads((site / "search.json").read_text())["items"]
    assert {"capacity.html#rungs", "runbooks/index.html", "twin/rules.html"} <= {
        each["location"] for each in found
    }
    source = "source/stacks/Pulumi.local.yaml.html"
    assert (site / source).is_file()
    assert not any(each["location"].startswith(source) for each in found)


@soak  # a build without warnings is the short form
@pytest.mark.needs_browser
def test_on_a_phone_no_page_is_wider_than_the_window_or_asks_another_host(browser, site, address):
    pages = sorted(each.name for each in site.glob("*.html") if each.name != "404.html")
    assert len(pages) > 60
    found = look(browser, [f"{address}/{name}" for name in pages], width=360)
    assert faults(found) == {}


@soak
@pytest.mark.needs_browser
@pytest.mark.parametrize(("width", "dark"), [(768, False), (1280, False), (1280, True)])
def test_on_wider_screens_text_has_the_contrast_that_wcag_asks_for(browser, address, width, dark):
    urls = [f"{address}/{name}.html" for name in SOME]
    found = look(browser, urls, width=width, dark=dark, faint=True)
    assert faults(found) == {}
