"""The documentation as a site, as a real browser shows it."""

import asyncio
import functools
import http.server
import json
import re
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from scripts.website.command import build
from scripts.website.versions import add_version
from tests.browser import FAINT, tab

pytestmark = pytest.mark.needs_tools
soak = pytest.mark.soak

SOME = ("index", "capacity", "cost", "diffusion", "reference/stack", "reference/exit-codes")
VERSIONS = "[...document.querySelectorAll('.md-version a')].map(one => one.href)"
OPEN_SEARCH = "document.querySelector('.md-search__button').click()"
IN_SEARCH = (
    "[...document.querySelectorAll('*')].map(one => one.shadowRoot)"
    ".find(one => one?.querySelector('input'))"
)
"""The dialog of the search, which is in a shadow tree."""
TYPE = """
(words => {
  const one = IN_SEARCH.querySelector('input');
  one.value = words;
  one.dispatchEvent(new Event('input', {bubbles: true}));
})(WORDS)
""".replace("IN_SEARCH", IN_SEARCH)
RESULTS = f"[...{IN_SEARCH}.querySelectorAll('ol a')].map(one => one.href)"
TASKS = (
    ("prevent that a change deletes a cluster or a bucket", "guard", "guard"),
    ("serve while TPUs are out of stock", "fallback", "capacity", "fallbacks"),
    ("see what a stock-out does", "stock-out", "capacity", "tutorial/3-take-the-tpus-away"),
    ("try a new version of a model on a share of its requests", "canary", "canaries"),
    ("know which quotas to ask for", "quota", "quota"),
    ("find out why clients get an error", "503", "api-errors"),
    ("pay nothing for a model without requests", "scale to zero", "scale-to-zero", "cloud-run"),
    ("bill each team for what it used", "bill", "usage"),
    ("serve a model on TPUs", "TPU", "capacity"),
    ("serve fine-tuned adapters", "LoRA", "adapters"),
    ("keep nodes and control plane off the internet", "private cluster", "edge-security"),
    ("deliver models from git", "GitOps", "gitops"),
    ("give a team a key", "API key", "api-keys"),
    ("use Spot machines", "spot", "provisioning-types"),
    ("know the cost of a stack", "cost", "cost"),
    ("limit the requests of a team", "rate limit", "limits-and-budgets"),
    ("move to the next release", "upgrade", "upgrades"),
    ("see what each alert means", "alerts", "observability", "runbooks/index"),
    ("serve from several regions", "multi region", "front-door", "multi-cluster-gateway"),
    ("know how long a replica takes to start", "cold start", "cold-start"),
    ("put the platform into the network of the company", "use my existing VPC", "faq"),
    ("let one more team in", "add an API key for a team", "faq", "api-keys"),
    ("choose an accelerator by price", "which GPU is cheapest", "faq", "planner"),
    ("run a model that is larger than the chip", "model does not fit", "faq", "planner"),
    ("undo a bad version of a model", "roll back a model", "faq", "canaries"),
    ("run the image that was tested", "pin image digest", "faq", "images", "reference/cli"),
    ("bring a public model", "move weights from Hugging Face", "faq", "weights"),
    ("hear of slow answers", "alert when latency is high", "faq", "observability"),
    ("stop paying", "delete everything", "faq", "google-cloud-commands"),
    ("use fewer replicas when nobody works", "scale down at night", "faq", "autoscaling"),
)
"""Tasks of a reader who is new: what it is, what a stranger types, and the pages that answer."""
CLICKS = {
    "tutorial/index": "see it work",
    "deploy": "deploy it to a project of one's own",
    "comparison": "decide whether it is the right project",
    "architecture": "understand the path of a request",
    "planner": "choose accelerators for a model",
    "verdict": "review a change",
    "licenses": "check the licenses",
    "limits": "know what was never tested",
    "troubleshooting": "fix a message",
    "runbooks/index": "answer an alert",
}
"""Pages that two clicks on links in the text reach from the front page, with the task."""
WIDER = "Math.max(0, document.documentElement.scrollWidth - innerWidth)"
UNNAMED = "[...document.images].filter(one => !one.alt.trim()).map(one => one.src)"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Folder of the site as the version `main`, beside a release."""
    target = tmp_path_factory.mktemp("website")
    build(target, has_versions=True)
    for name in ("0.1.0", "main"):
        add_version(target / "html", target / "versions", name)
    return target / "versions" / "main"


@pytest.fixture(scope="module")
def address(site):
    """Address of the version `main` on a server."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format, *args):  # noqa: A002  # its name in the base class
            pass

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(site.parent))
    )
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/main"
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


@soak
@pytest.mark.needs_browser
def test_the_header_has_a_selector_of_versions(browser, address):
    async def listed():
        async with tab(browser) as one:
            await one.open(f"{address}/cost.html", width=1280)
            return await until(one, VERSIONS)

    top = address.removesuffix("main")
    assert asyncio.run(listed()) == [f"{top}main/", f"{top}0.1.0/"]


@soak
@pytest.mark.needs_browser
def test_one_search_finds_the_page_of_each_of_thirty_tasks(browser, address):
    async def missed():
        found = []
        async with tab(browser) as one:
            await one.open(f"{address}/index.html", width=1280)
            await until(one, "!!document.querySelector('.md-search__button')")
            await one.value(OPEN_SEARCH)
            await until(one, f"!!{IN_SEARCH}")
            before = []
            for task, words, *pages in TASKS:
                await one.value(TYPE.replace("WORDS", json.dumps(words)))
                shown = await until(one, RESULTS, functools.partial(are_new, words, before))
                before = places_of(shown)
                first = [each.removeprefix(f"{address}/").split(".html")[0] for each in before[:5]]
                if not {*first} & {*pages}:
                    found.append((task, words, first))
        return found

    assert len(TASKS) == 30
    assert asyncio.run(missed()) == []


def places_of(links):
    """Return where links of results lead, without the words that they repeat to mark them."""
    return [re.sub(r"\?[^#]*", "", each) for each in links]


def are_new(words, before, links):
    """Return whether results are those of the words and no longer those of the search before."""
    said = [parse_qs(urlsplit(each).query).get("h") for each in links]
    return bool(links) and said == [[words]] * len(links) and places_of(links) != before


async def until(one, script, holds: Callable[[Any], bool] = bool):
    """Return what an expression is, once it holds."""
    async with asyncio.timeout(30):
        while not holds(value := await one.value(script)):
            await asyncio.sleep(0.1)
    return value


def test_two_clicks_on_links_of_the_text_reach_where_a_reader_begins(site):
    def linked(page):
        text = (site / page).read_text().partition("<article")[2].partition("</article>")[0]
        places = re.findall(r'href="?([^"#> ]+\.html)', text)
        return {(site / page).parent.joinpath(place).resolve() for place in places}

    first = linked("index.html")
    second = {each for page in first if page.is_file() for each in linked(page.relative_to(site))}
    reached = {each.relative_to(site).as_posix() for each in first | second if each.is_file()}
    assert {f"{page}.html" for page in CLICKS} - reached == set()
