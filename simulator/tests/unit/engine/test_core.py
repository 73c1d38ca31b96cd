"""The engine core: skipping ahead changes nothing, and callers set the time."""

import random
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.engine.core import EngineCore
from simulator.engine.request import Request
from simulator.tests.unit.engine.support import deployment

Moments = list[tuple[float | None, float | None, float | None, int, int, str | None]]


@dataclass(frozen=True)
class Event:
    """An external event for an engine."""

    moment: float
    kind: str
    prompt: int = 0
    output: int = 0
    group: int = 0
    adapter: str | None = None
    target: int = 0


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Arrivals, aborts, looks and slow-downs, in bursts and with pauses."""
    events: list[Event] = []
    moment = 0.0
    for _ in range(draw(st.integers(1, 25))):
        moment += draw(st.sampled_from([0.0, 0.001, 0.02, 0.11, 0.5, 3.0]))
        kind = draw(st.sampled_from(["arrival"] * 6 + ["abort", "look", "slow"]))
        events.append(
            Event(
                moment,
                kind,
                prompt=draw(st.integers(1, 300)),
                output=draw(st.sampled_from([1, 2, 7, 40, 150])),
                group=draw(st.integers(0, 3)),
                adapter=draw(st.sampled_from([None, None, "a", "b", "c"])),
                target=draw(st.integers(0, 30)),
            )
        )
    return events


def play(
    events: list[Event], *, skip_ahead: bool, flags: tuple[str, ...]
) -> tuple[Moments, str, int]:
    """Return the timestamps of all requests, the metrics page and the steps computed."""
    made = deployment("--enable-lora", "--max-loras", "2", "--block-size", "16", *flags)
    core = EngineCore(made, skip_ahead=skip_ahead)
    requests: list[Request] = []
    pages: list[str] = []
    for event in events:
        if event.kind == "arrival":
            prompt = [event.group] * (event.prompt // 2) + list(range(event.prompt // 2 + 1))
            request = Request(
                str(len(requests)),
                prompt,
                event.output,
                event.moment,
                adapter=event.adapter,
                priority=event.group,
                output=list(range(event.output)),
                block_salt=len(event.adapter or ""),
                tell_at=2**40,
            )
            requests.append(request)
            core.submit(request, event.moment)
        elif event.kind == "abort" and requests:
            core.abort(requests[event.target % len(requests)], event.moment)
        elif event.kind == "slow":
            core.slow_down(1 + event.target / 10, event.moment)
        else:
            core.advance(event.moment)
            pages.append(without_process(core.metrics.render()))
    core.advance(events[-1].moment + 10_000)
    pages.append(without_process(core.metrics.render()))
    moments: Moments = [
        (r.first_scheduled, r.first_token, r.last_token, r.generated, r.preemptions, r.finished)
        for r in requests
    ]
    return moments, "".join(pages), core.steps


def without_process(page: str) -> str:
    """Leave out what depends on the wall: process figures, and when series began or changed.

    Sums of floats are rounded: they are added up in another order.
    """
    lines: list[str] = []
    for line in page.splitlines():
        if (
            line.startswith(("process_", "#"))
            or "lora_requests_info{" in line
            or "_created" in line
        ):
            continue
        name, value = line.rsplit(" ", 1)
        lines.append(f"{name} {float(value):.9g}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--num-gpu-blocks-override", "60", "--max-model-len", "500"),
        ("--max-num-seqs", "3", "--max-num-batched-tokens", "64"),
        ("--no-enable-prefix-caching", "--scheduling-policy", "priority"),
    ],
)
@settings(max_examples=15, deadline=None)
@given(events=histories())
def test_skipping_ahead_gives_what_stepping_one_by_one_gives(
    flags: tuple[str, ...], events: list[Event]
):
    assert play(events, skip_ahead=True, flags=flags) == play(events, skip_ahead=False, flags=flags)


def test_most_steps_of_a_long_answer_are_skipped_over():
    core = EngineCore(deployment())
    looked = 0
    core.submit(Request("1", [1] * 100, 1000, 0.0, output=[1] * 1000, tell_at=2**40), 0.0)
    while (moment := core.next_event()) is not None:
        core.advance(moment)
        looked += 1
    assert core.steps == 1000
    assert looked < 30


def test_when_something_is_looked_at_does_not_matter():
    rng = random.Random(5)

    def ends(looks: list[float]) -> list[float | None]:
        core = EngineCore(deployment())
        requests = [
            Request(str(i), list(range(i, i + 500)), 300, i / 7, output=[1] * 300)
            for i in range(20)
        ]
        moments = sorted([(r.arrival, r) for r in requests] + [(m, None) for m in looks], key=str)
        for moment, request in sorted(moments, key=lambda pair: pair[0]):
            if request is None:
                core.advance(moment)
            else:
                core.submit(request, moment)
        core.advance(1e6)
        return [request.last_token for request in requests]

    assert ends([]) == ends([rng.uniform(0, 10) for _ in range(200)])


def test_a_slow_engine_takes_longer_for_every_step():
    def last(factor: float) -> float:
        core = EngineCore(deployment())
        core.slow_down(factor, 0.0)
        request = Request("1", [1] * 100, 50, 0.0, output=[1] * 50)
        core.submit(request, 0.0)
        core.advance(1e6)
        return request.last_token or 0.0

    assert last(3.0) == pytest.approx(3 * last(1.0))
    with pytest.raises(ValueError, match="above 0"):
        last(0.0)


def test_a_request_that_arrives_during_a_step_misses_the_next_one_which_is_already_scheduled():
    # vLLM 0.19 with the run of Qwen3-32B: what arrives in the first step starts with the third
    def first_token(*flags: str) -> float:
        core = EngineCore(deployment(*flags))
        first, second = (
            Request(name, range(at, at + 100), 50, 0.0, output=range(50))
            for name, at in (("first", 0), ("second", 1000))
        )
        core.submit(first, 0.0)
        end = core.next_event()
        assert end is not None
        core.submit(second, end / 2)
        while (moment := core.next_event()) is not None:
            core.advance(moment)
        assert second.first_token is not None
        return second.first_token

    assert first_token() > first_token("--no-async-scheduling")
