"""The comment, its picture, the JSON beside it and the exit code."""

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from infra.plan import resolve
from infra.reading.load import parse, platform_of
from planner.amount import Amount, AmountRange, Missing
from scripts.check import verdict as command
from scripts.terminal.console import CommandError
from scripts.terminal.output import Output
from scripts.verdicts import verdict as verdicts
from scripts.verdicts.changes import Change, Kind, changes
from scripts.verdicts.checkouts import Checkout
from scripts.verdicts.diagrams import mermaid, svg
from scripts.verdicts.markdown import MARKER, code, comment, cost_line, plain
from scripts.verdicts.money import Money, MonthlyCost, Row, Unit, money, money_as_json
from scripts.verdicts.moves import Move
from scripts.verdicts.rules import Breach, Compared, readable, sources, worlds
from scripts.verdicts.runs import Run, Runner
from scripts.verdicts.terminal import lines
from scripts.verdicts.topology import topology
from scripts.verdicts.verdict import Side, StackVerdict, Verdict
from tests.unit.verdicts.record import recorded
from tests.unit.verdicts.steps import step
from twin.host.paths import REPOSITORY

CLUSTER = "gcp:container/cluster:Cluster"
NAME = "llama-3.3-70b"


def change(kind=Kind.SAFE, action="update", name="acme", **others):
    return Change(kind, action, CLUSTER, name, f"urn:{name}", ("network",), **others)


def judged(*stacks, untouched=()):
    return Verdict("main (1a2b3c4)", "the working tree", stacks, untouched)


def monthly(*figures: float) -> MonthlyCost:
    """Return a month at minimum, expected and at maximum, all prices known."""
    return MonthlyCost(*map(Amount, figures))


LACKS = (Missing("a disk", "east"),)


FIRST = monthly(1, 100, 1000)


def first_lines(verdict):
    return comment(verdict).splitlines()[:2]


def drawn():
    run = recorded()
    before, after = (worlds(sources(readable(side))) for side in (run.before, run.after))
    return topology(changes(run.steps), before, after, [*run.before, *run.after])


@pytest.mark.parametrize(
    ("stack", "word"),
    [
        (StackVerdict("dev"), "no change"),
        (StackVerdict("dev", changes=(change(),)), "safe"),
        (StackVerdict("dev", changes=(change(Kind.RESTARTS), change())), "restarts"),
        (StackVerdict("dev", changes=(change(Kind.REPLACES),)), "replaces"),
        (StackVerdict("dev", changes=(change(Kind.DESTROYS), change(Kind.REPLACES))), "destroys"),
        (StackVerdict("dev", changes=(change(Kind.REPLACES, is_blocked=True),)), "blocked"),
        (StackVerdict("dev", limits=("chip_limits.gpu: must be at least 48",)), "blocked"),
        (StackVerdict("dev", policies=Compared(new=(Breach("r", "x", "y"),))), "blocked"),
        (StackVerdict("dev", invariants=Compared(new=(Breach("r", "x", "y"),))), "blocked"),
        (StackVerdict("dev", policies=Compared(new=(Breach("r", "x", "y", False),))), "no change"),
        (StackVerdict("dev", invariants=Compared(standing=(Breach("r", "x", "y"),))), "no change"),
        (StackVerdict("dev", error="head: no", is_head_broken=True), "blocked"),
        (StackVerdict("dev", error="base: no"), "not compared"),
    ],
)
def test_the_comment_begins_with_its_marker_and_the_verdict(stack, word):
    marker, title = first_lines(judged(stack))
    assert marker == MARKER
    assert title.startswith("## Verdict: ")
    assert title.endswith(word)


def test_the_gravest_stack_gives_the_verdict():
    stacks = (StackVerdict("dev"), StackVerdict("prod", changes=(change(Kind.RESTARTS),)))
    assert judged(*stacks).word == "restarts"


def test_what_blocks_is_named_before_anything_is_folded():
    gone = change(Kind.DESTROYS, "delete", is_blocked=True)
    text = comment(judged(StackVerdict("prod", changes=(gone,))))
    assert text.index("- prod: would delete Cluster acme") < text.index("<details>")
    assert "not named in `allow_replace`" in text
    assert "in `stacks/Pulumi.prod.yaml`: `allow_replace: [acme]`" in text


def test_cost_pods_and_breaches_are_in_the_summary_lines():
    before, after = monthly(1, 100, 1000), monthly(1, 350, 2000)
    stack = StackVerdict(
        "prod",
        changes=(change(Kind.RESTARTS, why="the pod template changes"),),
        moves=(
            Move("c", "Deployment a/b", 2, 12, "x"),
            Move("c", "DaemonSet a/d", None, None, "x"),
        ),
        money=Money(before, after),
        invariants=Compared(fixed=(Breach("r", "x", "y"),)),
    )
    text = comment(judged(stack))
    assert "### `prod`: 1 restarting, 2 to 12 and one a node pods of 2 workloads restart" in text
    assert "Cost: +$1,000 a month at maximum, +$250 expected<" in text
    assert "Invariants: 1 fixed" in text
    assert "| maximum | 1,000 | 2,000 | +$1,000 |" in text


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ((100, 900, 1000), (50_558, 900, 1000), "+$50,458 a month at minimum"),
        ((100, 900, 1000), (90, 400, 1200), "-$500 a month expected"),
        ((100, 900, 1000), (100, 1000, 1100), "+$100 a month expected"),
        ((100, 900, 1000), (100, 900, 1000.4), "same cost"),
    ],
)
def test_the_headline_has_the_largest_change_of_the_three_figures(before, after, line):
    assert cost_line(Money(monthly(*before), monthly(*after))) == line


def test_what_has_no_published_price_is_one_line_below_plain_figures():
    after = replace(monthly(1, 350, 2000), maximum=Amount(2000, LACKS))
    text = comment(judged(StackVerdict("p", changes=(change(),), money=Money(FIRST, after))))
    assert "| expected | 100 | 350 | +$250 |" in text
    assert "| maximum | 1,000 | 2,000 | +$1,000 |" in text
    assert "- no published price here for a disk in east: not in these totals" in text
    assert "at published prices" not in text


def test_rows_are_of_models_and_of_what_is_around_them():
    cost, low = AmountRange(*map(Amount, (2, 1, 4))), AmountRange(*map(Amount, (1, 0.5, 2)))
    found = Money(
        FIRST,
        monthly(1, 350, 2000),
        rows=(
            Row("accelerators", "chat", "east", Amount(100), Amount(350)),
            Row("storage", "", "", Amount(1), Amount(2)),
        ),
        units=(Unit("chat", "million output tokens", low, cost, False, False),),
        lacks_price=True,
    )
    text = comment(judged(StackVerdict("prod", changes=(change(),), money=found)))
    assert "+$1,000 a month at maximum at published prices, +$250 expected<" in text
    assert "| `chat in east` | 100 | 350 | +$250 |" in text
    assert "| `storage` | 1 | 2 | +$1 |" in text
    assert "| 1.00 (0.50 to 2.00) | 2.00 (1.00 to 4.00) |" in text


def test_the_json_has_plain_numbers_and_names_what_is_in_none_of_them():
    estimate = AmountRange(*map(Amount, (2, 1, 4)))
    found = Money(
        None,
        replace(monthly(1, 350, 2000), maximum=Amount(2000, LACKS)),
        rows=(Row("accelerators", "chat", "east", Amount(0), Amount(350)),),
        units=(Unit("chat", "million output tokens", None, estimate, True, False),),
    )
    assert money_as_json(found) == {
        "before": None,
        "after": {"minimum": 1, "expected": 350, "maximum": 2000, "missing": ["a disk in east"]},
        "rows": [
            {
                "group": "accelerators",
                "model": "chat",
                "region": "east",
                "before": 0,
                "after": 350,
            }
        ],
        "units": [
            {
                "model": "chat",
                "unit": "million output tokens",
                "before": None,
                "after": {"value": 2, "low": 1, "high": 4},
                "is_new": True,
                "is_gone": False,
            }
        ],
        "lacks_price": False,
        "note": "",
    }


def prod(**edits):
    """Return production with other settings of one model."""
    raw = platform_of(REPOSITORY / "stacks" / "Pulumi.prod.yaml")
    model = {**raw["models"][NAME], **edits}
    return resolve(parse(json.dumps({**raw, "models": {**raw["models"], NAME: model}})))


def test_a_change_says_where_it_costs_and_whether_what_changes_lacks_a_price():
    found = money(prod(replicas={"min": 1, "max": 2}), prod(replicas={"min": 1, "max": 6}))
    assert {row.model or row.group for row in found.rows} == {
        NAME, "network", "storage", "observability",
    }  # fmt: skip
    assert found.lacks_price  # no rung of it has a price in asia-northeast1
    assert "nvidia-h100-80gb x8 on-demand in asia-northeast1" in map(str, found.missing)


def test_a_model_that_is_called_like_a_group_has_rows_of_its_own():
    raw = platform_of(REPOSITORY / "stacks" / "Pulumi.local.yaml")
    model = raw["models"]["llama-3.1-8b"]
    old, new = (
        resolve(parse(json.dumps({**raw, "models": {"storage": {**model, "replicas": many}}})))
        for many in ({"min": 1, "max": 4, "standby": 0}, {"min": 1, "max": 8, "standby": 0})
    )
    rows = [(row.group, row.model) for row in money(old, new).rows]
    assert rows[0] == ("accelerators", "storage")
    assert ("storage", "") in rows


def test_what_lacks_a_price_and_stays_does_not_touch_the_headline():
    raw = platform_of(REPOSITORY / "stacks" / "Pulumi.prod.yaml")
    small = raw["models"]["qwen3-embedding-0.6b"]
    more = {**small, "regions": ["us-central1"], "replicas": {"min": 3, "max": 8}}
    less = {**small, "regions": ["us-central1"]}
    one, other = (
        resolve(parse(json.dumps({**raw, "models": {**raw["models"], "qwen3-embedding-0.6b": m}})))
        for m in (less, more)
    )
    found = money(one, other)
    assert found.missing
    assert not found.lacks_price
    assert cost_line(found) == "+$755 a month at minimum"  # 730.30 and what is around it


def test_a_new_stack_and_one_that_is_gone_say_so():
    made = StackVerdict("new", Side.HEAD, changes=(change(action="create"),))
    gone = StackVerdict("old", Side.BASE, changes=(change(Kind.DESTROYS, "delete"),))
    text = comment(judged(made, gone))
    assert "### `new`: new stack, 1 safe" in text
    assert "### `old`: stack removed, 1 destroyed" in text


def test_stacks_that_no_changed_file_is_part_of_are_named():
    assert "Not affected by the changed files: `dev`, `prod`." in comment(
        judged(untouched=("dev", "prod"))
    )


def test_many_changes_of_one_sort_take_one_row_and_many_rows_are_cut():
    safe = tuple(change(name=f"c{number}") for number in range(30))
    grave = tuple(change(Kind.RESTARTS, name=f"r{number}") for number in range(60))
    text = comment(judged(StackVerdict("dev", changes=(*grave, *safe))))
    assert "30 `Cluster`" not in text  # beyond the rows that are kept
    assert "and 21 more, in the JSON" in text
    assert "30 `Cluster`" in comment(judged(StackVerdict("dev", changes=safe)))


def test_a_comment_that_would_be_too_long_has_shorter_tables_and_no_drawing():
    name = "n" * 200
    grave = tuple(change(Kind.RESTARTS, name=f"{name}{number}") for number in range(60))
    stacks = [StackVerdict(f"s{n}", changes=grave, topology=drawn()) for n in range(20)]
    text = comment(judged(*stacks))
    assert 10_000 < len(text) < 60_000
    assert "mermaid" not in text
    assert text.count("<details>") == text.count("</details>") == 20
    assert "mermaid" in comment(judged(stacks[0]))


def test_nothing_that_a_pull_request_says_is_mark_up_or_a_mention():
    evil = "x`|<img src=x>\n# @everyone [a](b) **c**"
    text = comment(judged(StackVerdict("dev", error=evil, is_head_broken=True)))
    body = text.split("\n", 2)[2]
    assert "\n# " not in body
    assert "<img" not in body.replace("\\<", "")
    assert "@everyone" not in body
    assert code("a`b|c\nd") == "`a'b\\|c d`"
    assert plain("a*b") == "a\\*b"


def test_the_drawing_has_what_changes_and_its_neighbours_and_nothing_else():
    [cluster] = drawn().clusters
    found = {(node.kind, node.name): node for node in cluster.nodes}
    assert found["NodePool", "system"].gravity is Kind.RESTARTS
    assert found["Deployment", "gemma-3-4b-tpu"].action == "create"
    assert found["ComputeClass", "interactive-tpu"].action == ""
    assert (
        "Deployment",
        "llama-3-1-8b-picker",
    ) not in found  # it stays, and hangs on nothing drawn
    edges = {(cluster.nodes[a].name, cluster.nodes[b].name) for a, b in cluster.edges}
    assert ("gemma-3-4b", "gemma-3-4b-tpu") in edges
    assert ("gemma-3-4b-tpu", "interactive-tpu") in edges


def test_mermaid_names_every_node_once_and_draws_only_what_it_names():
    text = mermaid(drawn())
    named = re.findall(r"^    (c0n\d+)\[", text, re.MULTILINE)
    assert len(named) == len(set(named)) == len(drawn().clusters[0].nodes)
    assert {end for pair in re.findall(r"(c\d+n\d+) --> (c\d+n\d+)", text) for end in pair} <= set(
        named
    )
    assert "NodePool system<br/>restarts" in text


def test_the_svg_is_well_formed_and_shows_the_same():
    root = ET.fromstring(svg(drawn(), "What changes in <dev>"))  # noqa: S314 - our own
    words = "".join(root.itertext())
    assert "What changes in <dev>" in words
    assert "NodePool: restarts" in words


def written(tmp_path, monkeypatch, found):
    monkeypatch.setattr(command, "judge", lambda *_: found)
    monkeypatch.chdir(tmp_path)
    files = {"json_file": tmp_path / "a" / "v.json", "markdown": tmp_path / "b" / "v.md"}
    command.verdict("main", Path(), None, **files)
    return files


def test_a_safe_change_ends_with_success_and_writes_all_three_files(tmp_path, monkeypatch):
    stack = StackVerdict("dev", changes=(change(),), topology=drawn())
    files = written(tmp_path, monkeypatch, judged(stack))
    body = json.loads(files["json_file"].read_text())
    assert body["verdict"] == "safe"
    assert body["stacks"]["dev"]["changes"][0]["name"] == "acme"
    assert files["markdown"].read_text().startswith(MARKER)
    assert (tmp_path / "b" / "v-dev.svg").exists()


def test_a_blocked_change_ends_with_one_after_it_has_written(tmp_path, monkeypatch):
    stack = StackVerdict("dev", changes=(change(Kind.DESTROYS, "delete", is_blocked=True),))
    with pytest.raises(typer.Exit) as ended:
        written(tmp_path, monkeypatch, judged(stack))
    assert ended.value.exit_code == 1
    assert json.loads((tmp_path / "a" / "v.json").read_text())["blocks"]


@pytest.mark.parametrize("form", [Output.JSON, Output.YAML])
def test_the_verdict_is_data_for_another_program_and_keeps_its_exit_code(monkeypatch, capsys, form):
    stack = StackVerdict("dev", changes=(change(Kind.DESTROYS, "delete", is_blocked=True),))
    monkeypatch.setattr(command, "judge", lambda *_: judged(stack))
    with pytest.raises(typer.Exit) as ended:
        command.verdict("main", Path(), None, output=form)
    body = yaml.safe_load(capsys.readouterr().out)
    assert (ended.value.exit_code, body["verdict"]) == (1, "blocked")
    assert body["stacks"]["dev"]["changes"][0]["name"] == "acme"


def test_a_base_that_cannot_be_run_is_one_message(tmp_path, monkeypatch):
    with pytest.raises(CommandError, match=r"^dev: main \(1\): no$"):
        written(tmp_path, monkeypatch, judged(StackVerdict("dev", error="main (1): no")))


@pytest.mark.parametrize("option", ["json", "markdown"])
@pytest.mark.parametrize("name", ["folder", "file/v", "no/v"])
def test_a_file_that_cannot_be_written_is_one_message_before_anything_runs(
    tmp_path, monkeypatch, option, name
):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(command, "judge", lambda *_: pytest.fail("it ran"))
    files = {"json": None, "markdown": None, option: tmp_path / name}
    with pytest.raises(CommandError, match=f"^--{option}: must be a writable file"):
        command.verdict("main", Path(), None, files["json"], files["markdown"])


def test_a_stack_whose_file_is_taken_away_blocks_nothing_and_says_what_to_do(tmp_path, monkeypatch):
    bucket: Any = step("delete", "gcp:storage/bucket:Bucket", "b", {"name": "weights"})
    gone = Run((bucket["oldState"],), (bucket,))
    monkeypatch.setattr(verdicts, "compare", lambda *_: gone)
    base, head = Checkout("main (1a2b3c4)", REPOSITORY), Checkout("the working tree", tmp_path)
    found = judged(verdicts.of_stack(Runner({}), "local", base, head))
    assert (found.blocks, found.word) == ([], "destroys")
    assert "Run `pulumi destroy` first" in comment(found)
    assert "allow_replace" not in comment(found)
    assert "allow_replace" not in "\n".join(lines(found))
    assert (
        "Run `pulumi destroy` first"
        in json.loads(command.as_json(found))["stacks"]["local"]["note"]
    )
