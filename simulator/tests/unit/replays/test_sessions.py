"""Sessions of agents have the published shape."""

from statistics import median

from simulator.demand.default_day import AGENTS
from simulator.replays.sessions import (
    SUBAGENT_TURNS,
    SYSTEM_TOKENS,
    agent_sessions,
    reusable_share,
)

SESSIONS = agent_sessions(4, 2000, seed=1)


def test_turns_and_lengths_are_those_of_the_default_day():
    known = AGENTS.sessions
    assert known is not None
    lengths = {len(session.turns) for session in SESSIONS}
    assert lengths == {known.turns, known.turns + SUBAGENT_TURNS}
    own = [t for s in SESSIONS for t in s.turns if "subagent" not in str(t.question)]
    assert median(turn.prompt_tokens for turn in own) == 142_000 - 4
    assert {turn.output_tokens for turn in own} == {AGENTS.output_tokens}
    assert all(1 <= turn.arrival <= 10 for turn in own)


def test_about_as_many_sessions_have_a_subagent_as_published():
    forked = [s for s in SESSIONS if len(s.turns) > 43]
    assert 0.34 < len(forked) / len(SESSIONS) < 0.54


def test_most_of_the_prompts_was_seen_before():
    assert 0.955 < reusable_share(SESSIONS) < 0.965
    assert all(turn.prefix_tokens == SYSTEM_TOKENS for s in SESSIONS for turn in s.turns)


def test_the_same_seed_gives_the_same_sessions():
    assert agent_sessions(4, 100, seed=2) == agent_sessions(4, 100, seed=2)
    assert agent_sessions(4, 100, seed=2) != agent_sessions(4, 100, seed=3)
