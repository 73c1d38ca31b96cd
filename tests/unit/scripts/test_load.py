"""A scenario's traffic and its curves."""

import json
import threading

import pytest

from scripts.operate import load as load_module
from scripts.operate.load import Load, node_curves, print_report, trace_of
from scripts.terminal.console import CommandError
from simulator.traffic import Outcome, Record, Report
from twin.drawings.curves_svg import Curve, Panel, save
from twin.world.events import Events
from twin.world.scenario import Stage, Traffic

TRAFFIC = Traffic(
    stages=(Stage(rate=2, seconds=5), Stage(rate=10, seconds=3)),
    prompt_tokens=8,
    output_tokens=4,
    streamed_share=0.5,
)


def event(time, kind, subject, **fields):
    """Return an event of the timeline."""
    return {"time": time, "kind": kind, "subject": subject, "message": "", **fields}


def test_a_trace_has_each_stages_requests_at_its_time():
    trace = trace_of(TRAFFIC, "chat")
    early = [ask for ask in trace.asks if ask.at < 5]
    assert (len(early), len(trace.asks)) == (10, 40)
    assert {ask.model for ask in trace.asks} == {"chat"}
    assert 0 < sum(ask.stream for ask in trace.asks) < 40


def test_requests_come_from_the_regions_of_the_scenario_in_turn():
    clients = ("us-central1", "europe-west4")
    trace = trace_of(TRAFFIC.model_copy(update={"clients": clients}), "chat")
    found = [ask.headers["x-twin-client-region"] for ask in trace.asks if ask.at < 5]
    assert found == [*clients] * 5
    assert {tuple(ask.headers) for ask in trace_of(TRAFFIC, "chat").asks} == {()}


def test_requests_have_the_key_of_the_model():
    clients = TRAFFIC.model_copy(update={"clients": ("us-central1",)})
    (found,) = {tuple(ask.headers.items()) for ask in trace_of(clients, "chat", "gki_a").asks}
    assert dict(found) == {
        "authorization": "Bearer gki_a",
        "x-api-key": "gki_a",
        "x-twin-client-region": "us-central1",
    }


def test_two_traces_of_a_scenario_are_the_same():
    assert trace_of(TRAFFIC, "chat").digest == trace_of(TRAFFIC, "chat").digest


def test_who_waits_is_told_of_every_change_of_the_replicas(monkeypatch, tmp_path):
    going = threading.Event()
    states = iter(["1 ready", "1 ready", "2 ready"])

    def look():
        found = next(states, None)
        if found is None:
            going.set()
        return found or "2 ready"

    def run(trace, endpoint, options):
        assert len(set(options.sources)) == 40, "many clients"
        assert going.wait(60)
        return Report(())

    monkeypatch.setattr(load_module, "run", run)
    monkeypatch.setattr(load_module, "_LOOK_SECONDS", 0.01)
    load = Load(TRAFFIC, "http://nowhere", "chat", Events(tmp_path / "events"))
    load.start()
    said: list[str] = []
    assert load.finish(look, said.append).records == ()
    assert [line.split("s: ")[1] for line in said] == ["1 ready", "2 ready"]
    assert all("of 8 s" in line for line in said)


def test_traffic_that_lost_a_request_is_an_error(tmp_path):
    answered = Record(0, Outcome.ANSWERED, 0.0, 0.0, 1.0, tokens=4, replica="a")
    lost = Record(1, Outcome.LOST, 0.0, 0.0, 1.0, error="reset")
    print_report(Report((answered,)), tmp_path)
    with pytest.raises(CommandError, match="1 requests lost, the first: reset"):
        print_report(Report((answered, lost)), tmp_path)
    assert '"lost": 1' in (tmp_path / "traffic.json").read_text()
    lines = (tmp_path / "requests.jsonl").read_text().splitlines()
    assert [json.loads(line)["outcome"] for line in lines] == ["answered", "lost"]


def test_traffic_without_streamed_responses_has_no_time_to_first_token(tmp_path, capsys):
    whole = Record(0, Outcome.ANSWERED, 0.0, 0.0, 1.0, tokens=4, replica="a")
    streamed = Record(1, Outcome.ANSWERED, 0.0, 0.0, 1.0, 0.25, 1.0, tokens=4, replica="a")
    print_report(Report((whole,)), tmp_path)
    assert "0 lost; no first tokens: no response was streamed\n" in capsys.readouterr().out
    assert json.loads((tmp_path / "traffic.json").read_text())["ttft_ms"] is None
    print_report(Report((whole, streamed)), tmp_path)
    assert "0 lost; first token p95 250 ms\n" in capsys.readouterr().out


def test_nodes_are_counted_by_rung_as_they_come_and_go():
    rung = {"compute_class": "chat", "machine": "g2", "provisioning": "spot"}
    events = [
        event(10, "node.requested", "n1", **rung),
        event(12, "node.ready", "n1", **rung),
        event(20, "node.removed", "n1", **rung),
        event(40, "scenario.step", "end"),
    ]
    (curve,) = node_curves(events, 10, 40)
    assert curve.label == "chat g2 spot"
    assert curve.points == ((0.0, 0.0), (2.0, 1.0), (10.0, 0.0), (30.0, 0.0))


def test_a_node_that_stood_before_counts_from_the_start():
    rung = {"compute_class": "chat", "machine": "g2", "provisioning": "spot"}
    gone = {"compute_class": "chat", "machine": "a3", "provisioning": "spot"}
    events = [
        event(1, "node.ready", "n0", **gone),
        event(3, "node.removed", "n0", **gone),
        event(5, "node.ready", "n1", **rung),
    ]
    (curve,) = node_curves(events, 10, 40)
    assert curve.points == ((0.0, 0.0), (0.0, 1.0), (30.0, 1.0))


def test_curves_are_drawn_with_their_names_and_marks(tmp_path):
    panel = Panel("replicas", (Curve("chat ready", ((0, 1), (5, 2))),))
    save([panel], [(3.0, "6 requests a second")], tmp_path / "x.svg", "burst")
    text = (tmp_path / "x.svg").read_text()
    assert "chat ready" in text
    assert "6 requests a second" in text
