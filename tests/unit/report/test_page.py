"""The page of a stack: its figures are those of the commands, and its markup is sound."""

import re
from datetime import date
from html.parser import HTMLParser

import pytest

from gke_inference.gateway.router import MODEL_HEADER
from infra.estimate.cold_starts import starts
from infra.estimate.quota_needs import needs
from infra.estimate.stack_cost import stack_cost
from infra.estimate.unit_costs import unit_costs
from infra.plan import resolve
from planner.choice.coldstart import asks_at, spare_replicas
from scripts.images.actions import rows
from scripts.report.number_formats import time
from scripts.report.page import page
from scripts.report.starts import bars
from scripts.report.write import html
from tests.unit.report.conftest import NAME, route, state

DAY = date(2026, 11, 21)
VOID = {"meta", "link", "br"}


@pytest.fixture
def made(stack, rendered):
    """The page of `local` with two routes."""
    model = {MODEL_HEADER: "llama-3.1-8b"}
    folder = rendered(
        route("a", {"old": 90, "new": 10}, **model),
        route("b", {"new": 1}, **model, x_model_version="2"),
        state("gateway.networking.k8s.io/v1", "Gateway", "g", {}),
    )
    return page(resolve(stack()), "local", folder, day=DAY)


def test_the_bill_is_that_of_the_command_cost(made, stack):
    whole = stack_cost(resolve(stack()))
    assert made.costs.cost == whole
    assert made.costs.outdated == whole.outdated(DAY)


def test_replicas_of_a_schedule_are_means_with_few_digits(stack, rendered):
    window = {"days": ["MO"], "start": "08:00", "end": "20:00", "min": 3}
    schedule = {"time_zone": "Europe/Berlin", "windows": [window]}

    def change(data):
        data["models"]["llama-3.1-8b"]["replicas"] = {"min": 1, "max": 3, "schedule": schedule}

    folder = rendered(state("gateway.networking.k8s.io/v1", "Gateway", "g", {}))
    text = html(page(resolve(stack(change)), "local", folder, day=DAY))
    assert '<td class="n">1.143 / 2.071 / 3</td>' in text  # 3 in 12 of 168 hours


def test_the_bars_are_the_starts_of_the_command_coldstart(stack):
    platform = stack(name="prod")
    found = starts(resolve(platform))
    drawn = bars(resolve(platform), found)
    assert sum(len(bar.regions) for bar in drawn) == len(found)
    for one in found:
        (bar,) = [
            bar
            for bar in drawn
            if (bar.model, bar.rung) == (one.model, one.rung) and one.region in bar.regions
        ]
        begins, last = bar.parts[-1]
        assert begins + last.seconds == pytest.approx(one.start.seconds)
        minimum = platform.models[one.model].replicas.min
        assert bar.spare == spare_replicas(minimum, one.start)
        assert bar.asks_at == asks_at(one.start)
        assert bar.is_late is one.is_late


def test_a_bar_begins_with_the_wait_for_a_machine(stack):
    platform = stack(name="prod")
    queued = [
        bar
        for bar in bars(resolve(platform), starts(resolve(platform)))
        if "flex-start" in bar.rung
    ]
    assert queued
    assert all(bar.parts[0][1].name == "queue" for bar in queued)


def test_a_canary_has_its_share_and_a_pinned_version_its_header(made):
    shared, pinned = made.routes
    assert [(one.name, one.percent) for one in shared.backends] == [("old", 90), ("new", 10)]
    assert shared.names == ("llama-3.1-8b",)
    assert shared.headers == ()
    assert pinned.headers == ("x-model-version: 2",)
    assert pinned.clusters == (NAME,)


def test_versions_are_those_of_the_lock_and_of_the_rendered_objects(made, stack):
    assert made.versions.images == tuple(rows(resolve(stack()).images, "us-central1"))
    assert made.versions.unpinned == sum(not row.is_pinned for row in made.versions.images)
    (kinds,) = made.versions.apis.values()
    assert kinds == {"Gateway": 1, "HTTPRoute": 2}


class Reader(HTMLParser):
    """Reads headings, tables, pictures and links of a page, and whether its tags are closed."""

    def __init__(self):
        super().__init__()
        self.headings, self.scopes, self.pictures, self.addresses, self.open = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag in {"h1", "h2", "h3"}:
            self.headings.append(int(tag[1]))
        if tag == "th":
            self.scopes.append(values.get("scope"))
        if tag == "svg":
            self.pictures.append(bool(values.get("aria-label")) or "aria-hidden" in values)
        self.addresses += [values[key] for key in ("href", "src") if key in values]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """Pictures close their shapes at once."""

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_markup_is_sound_and_names_nothing_from_elsewhere(made):
    text = html(made)
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    assert reader.headings[0] == 1
    assert reader.headings.count(1) == 1
    steps = zip(reader.headings, reader.headings[1:], strict=False)
    assert all(after <= before + 1 for before, after in steps)
    assert set(reader.scopes) <= {"col", "row", "rowgroup"}
    assert all(reader.pictures)
    assert all(one.startswith(("#", "data:")) for one in reader.addresses)
    assert "<script" not in text
    assert "url(" not in text


def test_what_has_no_published_price_is_a_line_and_no_sign_at_the_figures(made, stack, rendered):
    text = html(made)
    assert "<dt>minimum</dt><dd>$8,112</dd>" in text
    assert "<dt>maximum</dt><dd>$32,053</dd>" in text
    assert '<p class="figure">$16,129</p>' in text
    assert "$15,768 of it for accelerator machines" in text
    assert '<a href="#missing">1 item has no price here</a>' in text
    named = text.partition('id="missing"><summary>')[2].partition("</details>")[0]
    assert named.startswith("1 item has no price here and is not in these totals</summary>")
    assert "<li>Cloud Armor policy in us-central1</li>" in named
    prod = html(
        page(
            resolve(stack(name="prod")),
            "prod",
            rendered(state("v1", "ConfigMap", "a", {})),
            day=DAY,
        )
    )
    assert "≥" not in prod
    assert "<small>no price: nvidia-h100-80gb x8 on-demand</small>" in prod


def test_the_groups_of_the_cost_stand_in_a_table_with_a_picture_each(made):
    text = html(made)
    table = text.partition("By group, per month")[2].partition("</table>")[0]
    found = re.findall(r'<th scope="row">(\w+)</th>', table)
    assert found == ["accelerators", "cluster", "network", "storage", "observability"]
    assert table.count('<svg class="range"') == len(found)
    assert "cluster: $171 to $367 a month, expected $269" in table
    assert "management fee" in text
    assert "Assumed: 0 GiB of answers a month in each region" in text


def test_what_always_runs_is_shown_committed(made):
    text = html(made).partition("Always-running machines, with commitments")[2]
    assert "<dt>on demand, per month</dt><dd>$7,982</dd>" in text
    assert "<dt>committed for 3 years</dt><dd>$3,592<small>-55\u00a0%</small></dd>" in text
    assert 'id="missing-commitments"' not in text


@pytest.mark.parametrize("name", ["dev", "prod", "staging", "images", "slices"])
def test_every_stack_that_is_shipped_has_a_page(stack, rendered, name):
    platform = stack(name=name)
    found = page(resolve(platform), name, rendered(state("v1", "ConfigMap", "a", {})), day=DAY)
    reader = Reader()
    reader.feed(html(found))
    assert reader.open == []
    assert [one.name for one in found.models] == list(platform.models)
    assert {one.model for one in found.bars} == set(platform.models)
    assert sum(len(place.models) for place in found.places) == len(
        {(line.served.model, line.served.region) for line in found.costs.bill.lines}
    )


def test_a_model_that_draws_has_a_price_of_pictures(stack, rendered):
    found = page(
        resolve(stack(name="images")),
        "images",
        rendered(state("v1", "ConfigMap", "a", {})),
        day=DAY,
    )
    (row,) = found.costs.units.values()
    assert row.unit == "thousand images"
    (line,) = unit_costs(resolve(stack(name="images")), found.costs.bill)
    assert row.usd is not None
    assert line.usd is not None
    assert row.usd.value.value == pytest.approx(line.usd.value.value)
    assert "A thousand images" in html(found)


def test_a_further_image_model_is_named_beside_its_server(stack, rendered):
    def two(data):
        size = {"parameters_billion": 5.6, "bits": 16}
        mini = {"weights": "flux.1-dev", "size": size, "steps": 20}
        first = data["models"]["flux-schnell"]
        first |= {"size": size, "images": {"models": {"flux-mini": mini}}}

    folder = rendered(state("v1", "ConfigMap", "a", {}))
    found = page(resolve(stack(two, name="images")), "images", folder, day=DAY)
    assert [one.further for one in found.models] == [("flux-mini",)]
    text = html(found)
    assert "; also serves flux-mini</small>" in text
    row = text.partition("By model, per month")[2].partition("</table>")[0].split("<tr>")[-1]
    assert row.startswith('<th scope="row">flux-mini</th>')
    assert ">replicas of flux-schnell</td>" in row
    assert "<small>per thousand images</small>" in row


def test_a_price_that_nobody_knows_has_its_reason(stack, rendered):
    def unknown(data):
        data["models"]["ours"] = {**data["models"].pop("llama-3.1-8b"), "weights": "ours"}

    folder = rendered(state("v1", "ConfigMap", "a", {}))
    found = page(resolve(stack(unknown)), "local", folder, day=DAY)
    row = found.costs.units["ours"]
    assert row.usd is None
    assert row.reason in html(found)


def test_a_model_that_embeds_has_a_price_of_what_it_is_given(stack, rendered):
    folder = rendered(state("v1", "ConfigMap", "a", {}))
    found = page(resolve(stack(name="prod")), "prod", folder, day=DAY)
    assert found.costs.units["qwen3-embedding-0.6b"].unit == "million input tokens"
    text = html(found)
    assert "per million input tokens" in text
    assert "<dt>A million tokens</dt>" in text  # of answers: embeddings are not among them


def test_quotas_of_accelerators_are_those_of_the_command_quota(stack, rendered):
    platform = stack()
    found = page(resolve(platform), "local", rendered(state("v1", "ConfigMap", "a", {})), day=DAY)
    asked = [one for one in needs(resolve(platform)) if one.kind == "accelerator"]
    assert [one.need for one in found.quota] == asked
    assert all(one.need.metric.label in html(found) for one in found.quota)


def test_what_a_stack_says_is_text_and_no_markup(stack, rendered):
    folder = rendered(route("a", {"<b>pool</b>": 1}))
    text = html(page(resolve(stack()), "local", folder, day=DAY))
    assert "&lt;b&gt;pool&lt;/b&gt;" in text
    assert "<b>pool</b>" not in text


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (409, "6 min 49 s")]
)
def test_a_time_is_said_in_minutes_and_seconds(seconds, said):
    assert time(seconds) == said


def test_every_time_of_a_start_is_in_minutes_and_seconds(stack, rendered):
    folder = rendered(state("v1", "ConfigMap", "a", {}))
    found = page(resolve(stack(name="prod")), "prod", folder, day=DAY)
    text = html(found)
    late = [bar.start.seconds - bar.limit for bar in found.bars if bar.is_late and bar.limit]
    assert late
    assert all(f"{time(seconds)} too late" in text for seconds in late)
    # how a stage was calculated, in its tooltip, is the arithmetic in seconds
    words = re.sub(r"<title>[^<]*</title>|<[^>]+>", " ", text)
    assert re.findall(r"\b\d{3,} s\b", words) == []
    assert "starts in 10 min" in words


def test_the_cost_of_a_million_tokens_is_at_the_top(stack, rendered):
    folder = rendered(state("v1", "ConfigMap", "a", {}))
    for name in ("prod", "local"):
        text = html(page(resolve(stack(name=name)), name, folder, day=DAY))
        assert text.partition("<dt>A million tokens</dt>")[2].startswith("<dd>$")


def test_regions_with_the_same_kubernetes_share_a_row(stack, rendered):
    folder = rendered(state("v1", "ConfigMap", "a", {}))
    [row] = page(resolve(stack(name="prod")), "prod", folder, day=DAY).versions.kubernetes
    assert row.regions == ("us-central1", "europe-west4", "asia-northeast1")
