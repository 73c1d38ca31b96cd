"""Sessions of agents on computed engines: each turn is sent when the one before it has ended."""

import heapq
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace

import numpy as np

from simulator.demand.default_day import AGENTS
from simulator.demand.pattern import Sessions
from simulator.engine.compiled import CompiledCluster, outcomes_of
from simulator.engine.replay import Replay, TraceRequest
from simulator.engine.stepped import Finished
from simulator.replays.picker_configs import Facts
from simulator.replays.replica_spec import ReplicaSpec
from simulator.replays.workloads import StageSpec, Workload, price_of
from simulator.traffic import Slo, Trace


def _known() -> Sessions:
    if AGENTS.sessions is None:
        raise ValueError("the agents of the default day must have sessions, got none")
    return AGENTS.sessions


_KNOWN = _known()
ANSWER_TOKENS = 444
LEAST_GAP, MOST_GAP = 1.0, 10.0
"""Seconds between an answer and the next turn, uniform. In a coding trace, 86.5 % of the next turns
come within 1 s and 95 % within 10 s (github.com/vllm-project/router/issues/285)."""
SUBAGENT_SHARE = 0.44
"""Part of the sessions with a subagent: vLLM's AgentX figures, see `AGENTS`."""
SUBAGENT_TURNS = 10
"""Turns of a subagent, which the session waits for. Assumed."""
SYSTEM_TOKENS = 12_000
"""Tokens of the system prompt and the tools, with which all sessions and subagents start.
Assumed."""


@dataclass(frozen=True)
class Session:
    """Turns, of which each waits for the one before it."""

    start: float
    """Time of the first turn, in seconds."""
    turns: tuple[TraceRequest, ...]
    """The requests; `arrival` is the time after the end of the turn before it."""


def _no_trace(_spec: StageSpec, _seed: int) -> Trace:
    raise ValueError("sessions have no trace: a turn is sent when the one before it has ended")


@dataclass(frozen=True)
class SessionWorkload(Workload):
    """A workload of sessions instead of a trace; its rates are those of undelayed sessions."""

    make: Callable[[StageSpec, int], Trace] = _no_trace
    slo: Slo = field(kw_only=True)
    begin: Callable[[StageSpec, int], list[Session]] = field(kw_only=True)
    """Creates the sessions of a stage; the second argument is the seed."""
    filling_seconds: float = 0.0
    """Time before a stage in which sessions already start; its requests are not measured."""


_FILLING_SECONDS = 450.0
"""About as long as a session takes, so that some end when the measured time begins."""


def agents() -> SessionWorkload:
    """Return sessions of coding agents on a model for them."""
    cost = price_of("nvidia-h200-141gb", "a3-ultragpu-8g")
    flags = ("--tensor-parallel-size=8", "--max-model-len=262144")
    model = "Qwen/Qwen3-Coder-480B-A35B-Instruct-FP8"
    replica = ReplicaSpec("nvidia-h200-141gb", 8, model, flags, usd_per_hour=cost)
    return SessionWorkload(
        "agents",
        f"sessions of {_KNOWN.turns} turns that start with {SYSTEM_TOKENS:,} shared tokens and "
        f"grow from {_KNOWN.first_tokens:,} by {_KNOWN.tokens_per_turn:,} tokens a turn, "
        f"{SUBAGENT_SHARE:.0%} with a subagent; Qwen3-Coder 480B-A35B on 4 x 8 H200",
        (replica,) * 4,
        tuple(StageSpec(rate, 450) for rate in (2, 3, 4)),
        (StageSpec(4, 100),),
        slo=Slo(ttft_ms=5000, tpot_ms=100),
        facts=Facts(has_sessions=True),
        seeds=(1, 2, 3, 4),
        begin=lambda spec, seed: agent_sessions(spec.rate, _FILLING_SECONDS + spec.seconds, seed),
        filling_seconds=_FILLING_SECONDS,
    )


def agent_sessions(rate: float, seconds: float, seed: int) -> list[Session]:
    """Return sessions of agents, which start at random times.

    Turns, lengths and growth are those of `AGENTS`. A subagent starts with the system prompt, then
    has a context of its own.

    Args:
        rate: requests per second that the sessions send on average, if they are not delayed.
        seconds: time in which sessions start.
        seed: seed of all random numbers.
    """
    choose = random.Random(f"agents/{seed}/{rate}")  # noqa: S311  # load, not secrets
    per_session = _KNOWN.turns + SUBAGENT_SHARE * SUBAGENT_TURNS
    count = max(1, round(rate * seconds / per_session))
    starts = sorted(choose.uniform(0, seconds) for _ in range(count))
    return [
        Session(start, tuple(_turns(f"{rate:g}/{seed}/{number}", choose)))
        for number, start in enumerate(starts)
    ]


def _turns(name: str, choose: random.Random) -> Iterator[TraceRequest]:
    has_subagent = choose.random() < SUBAGENT_SHARE
    forks = choose.randrange(_KNOWN.turns - 1) if has_subagent else None
    for turn in range(_KNOWN.turns):
        yield _turn(name, turn, choose)
        if turn == forks:
            for inner in range(SUBAGENT_TURNS):
                yield _turn(f"{name}/subagent", inner, choose)


def _turn(name: str, turn: int, choose: random.Random) -> TraceRequest:
    return TraceRequest(
        choose.uniform(LEAST_GAP, MOST_GAP),
        _KNOWN.first_tokens + turn * _KNOWN.tokens_per_turn,
        ANSWER_TOKENS,
        group="agents",
        prefix_tokens=SYSTEM_TOKENS,
        question=name,
    )


def reusable_share(sessions: Sequence[Session]) -> float:
    """Return the part of all prompt tokens that an earlier turn had, or another session."""
    asked = reusable = 0
    longest: dict[str | None, int] = {}
    for session in sessions:
        for turn in session.turns:
            asked += turn.prompt_tokens
            reusable += longest.get(turn.question, SYSTEM_TOKENS)
            longest[turn.question] = turn.prompt_tokens
    return reusable / asked


def play_sessions(cluster: CompiledCluster, sessions: Sequence[Session], seconds: float) -> Replay:
    """Compute sessions that start now; turns due after `seconds` are not sent.

    Engines are advanced by the shortest gap, so that no answer can cause a turn in the same step.
    """
    begun, before = cluster.now, cluster.engines.prefix_stats()
    due = [(session.start, number, 0) for number, session in enumerate(sessions)]
    heapq.heapify(due)
    sent: list[TraceRequest] = []
    sender: list[tuple[int, int]] = []
    parts: list[Finished] = []
    until, unanswered = 0.0, 0
    while unanswered or (due and due[0][0] < seconds):
        until += LEAST_GAP
        batch: list[TraceRequest] = []
        while due and due[0][0] < min(until, seconds):
            at, number, turn = heapq.heappop(due)
            batch.append(replace(sessions[number].turns[turn], arrival=at))
            sender.append((number, turn))
        ended = cluster.advance(batch, len(sent), begun, begun + until)
        sent += batch
        unanswered += len(batch) - len(ended.number)
        parts.append(ended)
        places: list[int] = ended.number.tolist()
        ends: list[float] = ended.last_token_seconds.tolist()
        for place, last in zip(places, ends, strict=True):
            number, turn = sender[place]
            if turn + 1 < len(sessions[number].turns):
                gap = sessions[number].turns[turn + 1].arrival
                heapq.heappush(due, (last - begun + gap, number, turn + 1))
    return Replay(outcomes_of(sent, _joined(parts), begun, 0.0), [], cluster.stats_since(before))


def _joined(parts: Sequence[Finished]) -> Finished:
    names = [each.name for each in fields(Finished)]
    return Finished(*(np.concatenate([getattr(p, name) for p in parts]) for name in names))
