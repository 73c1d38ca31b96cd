"""Every outcome of a request is classified exactly."""

import socket
from contextlib import ExitStack, suppress

import pytest

from simulator.traffic import Options, Outcome, Prompt, Trace, TraceEntry, run


def ask(how, at=0.0, **fields):
    return TraceEntry(at, how, Prompt("shared ", 'own "\n'), 3, **fields)


def one(server, how, options=None, **fields):
    return run(Trace("t", (ask(how, **fields),)), server.url, options).records[0]


def test_a_complete_stream_is_answered_with_its_tokens_times_and_replica(server):
    found = one(server, "good", group="g")
    assert (found.outcome, found.tokens, found.prompt_tokens) == (Outcome.ANSWERED, 3, 7)
    assert (found.status, found.error, found.replica, found.group) == (200, "", "pod-1", "g")
    assert found.due == 0.0
    assert found.first is not None
    assert found.last is not None
    assert found.due <= found.sent < found.first <= found.last < found.done


def test_events_cut_anywhere_by_the_network_are_read_whole(server):
    found = one(server, "split")
    assert (found.outcome, found.tokens) == (Outcome.ANSWERED, 3)


def test_an_answer_that_is_not_streamed_is_read_too(server):
    found = one(server, "whole", stream=False)
    assert (found.outcome, found.tokens, found.first, found.tpot) == (
        Outcome.ANSWERED, 3, None, None,
    )  # fmt: skip


@pytest.mark.parametrize("status", ["400", "404", "429", "500", "503", "504"])
def test_an_error_status_is_a_refusal(server, status):
    found = one(server, status)
    assert (found.outcome, found.error) == (Outcome.REFUSED, f"http-{status}")
    assert found.detail == '{"error":{"message":"no"}}'


def test_an_error_status_without_a_body_is_a_refusal_too(server):
    assert one(server, "empty-503").outcome is Outcome.REFUSED


def test_an_error_inside_the_stream_is_a_refusal(server):
    found = one(server, "error-event")
    assert (found.outcome, found.error) == (Outcome.REFUSED, "stream-error")
    assert "broke" in found.detail


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("no-done", "unfinished"),
        ("no-finish", "unfinished"),
        ("half-event", "truncated"),
        ("cut-stream", "truncated"),
        ("cut-error", "truncated"),
        ("cut-at-once", "reset"),
        ("garbage", "malformed"),
    ],
)
def test_an_answer_without_its_end_is_lost(server, how, reason):
    found = one(server, how)
    assert (found.outcome, found.error) == (Outcome.LOST, reason)


@pytest.mark.parametrize(
    ("how", "reason"), [("html", "malformed"), ("whole-without-reason", "unfinished")]
)
def test_a_whole_answer_that_is_none_is_lost(server, how, reason):
    found = one(server, how, stream=False)
    assert (found.outcome, found.error) == (Outcome.LOST, reason)


def test_silence_is_a_loss_when_the_time_is_over(server):
    found = one(server, "silent", Options(timeout_seconds=0.3))
    assert (found.outcome, found.error) == (Outcome.LOST, "timeout")


def test_nobody_listening_is_a_loss():
    trace = Trace("t", (ask("good"),))
    found = run(trace, "http://127.0.0.1:9").records[0]
    assert (found.outcome, found.error) == (Outcome.LOST, "connect")


def test_a_connection_that_nobody_takes_is_no_silence():
    with ExitStack() as held:
        listener = held.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = listener.getsockname()[1]
        for _ in range(4):  # until no more wait to be taken
            client = held.enter_context(socket.socket())
            client.settimeout(0.1)
            with suppress(TimeoutError):
                client.connect(("127.0.0.1", port))
        trace = Trace("t", (ask("good"),))
        found = run(trace, f"http://127.0.0.1:{port}", Options(connect_seconds=0.2)).records[0]
    assert (found.outcome, found.error) == (Outcome.LOST, "connect")


def test_requests_leave_when_they_are_due_whatever_becomes_of_others(server):
    asks = [ask("slow-first"), *(ask("good", at / 100) for at in range(10))]
    report = run(Trace.merge("t", asks), server.url)
    assert all(record.outcome is Outcome.ANSWERED for record in report.records)
    assert max(record.done for record in report.records[1:5]) < report.records[0].done


def test_speed_compresses_the_sending_and_stretches_what_is_measured(server):
    asks = tuple(ask("slow-first", at) for at in (0.0, 10.0))
    report = run(Trace("t", asks), server.url, Options(speed=100.0))
    first, second = report.records
    assert first.done > 15.0  # 0.5 s of the server are 50 s of the trace
    assert second.sent >= 9.5  # a timer may ring 5 ms early
    ttft = report.summary().ttft_ms
    assert ttft is not None
    assert ttft.p50 > 15_000


def test_what_is_sent_is_a_completion_of_the_whole_prompt_with_headers(server):
    one(server, "good", headers={"x-gateway-inference-objective": "batch"})
    assert server.bodies[-1] == {
        "model": "good",
        "prompt": 'shared own "\n',
        "max_tokens": 3,
        "ignore_eos": True,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert "x-gateway-inference-objective: batch" in server.headers[-1]


def test_requests_are_sent_from_each_given_address_in_turn(server):
    trace = Trace("t", tuple(ask("good", at / 20) for at in range(4)))
    server.sources.clear()
    run(trace, server.url, Options(sources=("127.16.0.1", "127.16.0.2")))
    assert sorted(server.sources) == ["127.16.0.1"] * 2 + ["127.16.0.2"] * 2


def test_nothing_is_counted_twice_or_left_out(server):
    ways = ["good", "429", "cut-stream", "error-event", "no-done", "split"] * 5
    report = run(Trace("t", tuple(ask(way, n / 1000) for n, way in enumerate(ways))), server.url)
    found = report.summary()
    assert (found.sent, found.answered, found.refused, found.lost) == (30, 10, 10, 10)
    assert found.errors == {"http-429": 5, "truncated": 5, "stream-error": 5, "unfinished": 5}
    assert {r.error for r in report.lost} == {"truncated", "unfinished"}
