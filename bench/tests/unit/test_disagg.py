"""`bench disagg`: connections of the load generator, and the published ratios."""

import random

import pytest

from bench import bounds
from bench.disagg import IDLE_SECONDS, PUBLISHED, WORKERS, Connections, compared, engine


class OneWorker(random.Random):
    """Chooses the first worker and counts the choices of an engine."""

    chosen = 0

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        return 0

    def choice(self, seq):
        self.chosen += 1
        return seq[self.chosen % len(seq)]


def test_a_worker_uses_the_connection_again_that_has_been_idle_for_the_longest_time():
    choose = OneWorker()
    engines = [engine(1), engine(1)]
    connections = Connections(engines, choose, kept=True)
    first, second = connections.take(0.0)[1], connections.take(0.0)[1]
    assert first is not second
    connections.leave(0, second, 1.0)
    connections.leave(0, first, 2.0)
    assert [connections.take(3.0)[1] for _ in range(2)] == [second, first]
    assert choose.chosen == 2


def test_a_connection_that_the_server_has_closed_is_not_used_again():
    choose = OneWorker()
    connections = Connections([engine(1)], choose, kept=True)
    worker, one = connections.take(0.0)
    assert worker < WORKERS
    connections.leave(worker, one, 1.0)
    connections.take(1.0 + IDLE_SECONDS)
    assert choose.chosen == 2


@pytest.mark.parametrize(("tpot", "passes"), [(8.3, True), (12.0, False)])
def test_a_ratio_too_far_from_the_published_one_misses_its_bound(tpot: float, passes: bool):
    def arm(ttft: float, tpot: float, whole: float):
        spread = {"ttft_ms": {"mean": ttft}, "tpot_ms": {"mean": tpot}}
        return {"arm": "x", "rate": 45.0, "e2e_mean_s": whole, **spread}

    before, after = arm(532, 25, 6.7), arm(1444, tpot, 3.54)
    rows = [compared(before, after, pair) for pair in PUBLISHED]
    checks = bounds.check("disagg", rows)
    assert [check.passes for check in checks] == [True, passes, True]
