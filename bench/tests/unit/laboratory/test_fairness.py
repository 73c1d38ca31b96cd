"""The two clients of the fairness measurement: what is sent, and how waiting is counted."""

from bench.laboratory.fairness import FAIRNESS_HEADER, LOUD, QUIET, Load, trace, waited
from simulator.traffic.asks import TraceEntry
from simulator.traffic.records import Outcome, Record


def asks_of(client: str, factor: float) -> list[TraceEntry]:
    return [ask for ask in trace(Load(30, factor)).asks if ask.group == client]


def test_the_loud_client_sends_ten_times_more_and_the_quiet_one_the_same() -> None:
    assert len(asks_of(LOUD, 10)) == 10 * len(asks_of(LOUD, 1))
    assert asks_of(QUIET, 10) == asks_of(QUIET, 1)
    assert {ask.headers[FAIRNESS_HEADER] for ask in asks_of(QUIET, 1)} == {QUIET}


def test_a_request_without_an_answer_counts_with_the_clients_patience() -> None:
    answered = Record(0, Outcome.ANSWERED, due=1, sent=1, done=3, first=2)
    refused = Record(1, Outcome.REFUSED, due=1, sent=1, done=9)
    lost = Record(2, Outcome.LOST, due=1, sent=1, done=31)
    found = waited([answered, refused, lost], patience=30)
    assert (found.sent, found.answered, found.refused, found.gave_up) == (3, 1, 1, 1)
    assert (found.ttft_ms.p50, found.ttft_ms.p95) == (30000, 30000)
