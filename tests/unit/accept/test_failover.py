"""A replica is deleted while its model is asked."""

from dataclasses import replace

import pytest

from scripts.accept import failover
from scripts.accept.failover import Asked, failovers, judged
from scripts.accept.row import Subject, Verdict
from tests.unit.accept.fake_platform import MODEL, pod

SUBJECT = Subject("failover", "x", "answered while one replica is replaced")


@pytest.fixture
def impatient(platform, fake, monkeypatch):
    """Give a platform whose cluster replaces a pod as soon as it is deleted."""
    monkeypatch.setattr(failover, "_LEAST_SECONDS", 0.0)

    def sleep(_: float) -> None:
        if fake.cluster.deleted:
            gone = fake.cluster.deleted[-1].rpartition("/")[2]
            kept = [each for each in fake.cluster.pods if each["metadata"]["name"] != gone]
            fake.cluster.pods = [*kept, pod("llama-9", "tpu")] if len(kept) < 2 else kept
            fake.gateway.refused.clear()

    return replace(platform, sleep=sleep)


def test_one_of_two_replicas_is_deleted_and_every_request_answered(impatient, fake):
    fake.cluster.pods = [pod("llama-0", "tpu"), pod("llama-1", "tpu")]
    (row,) = failovers(impatient, 120)
    assert row.verdict is Verdict.MET
    assert row.measured.endswith(" answered, 0 refused")
    assert fake.cluster.deleted == ["/api/v1/namespaces/models/pods/llama-0"]


def test_a_refusal_is_not_met_where_another_replica_was_ready(impatient, fake):
    fake.cluster.pods = [pod("llama-0", "tpu"), pod("llama-1", "tpu")]
    fake.gateway.refused[MODEL] = (503, "No replica")
    (row,) = failovers(impatient, 120)
    assert row.verdict is Verdict.NOT_MET
    assert " 1 refused for " in row.measured


def test_an_outage_of_the_only_replica_is_what_the_stack_promises(impatient, fake):
    fake.gateway.refused[MODEL] = (503, "No replica")
    (row,) = failovers(impatient, 120)
    assert row.verdict is Verdict.MET
    assert row.predicted == "the only replica: refused until another one serves"


def test_a_replica_that_is_not_replaced_is_not_met(platform, fake):
    fake.gateway.refused[MODEL] = (503, "No replica")
    (row,) = failovers(platform, 0.2)
    assert row.verdict is Verdict.NOT_MET
    assert row.measured.endswith(f"not replaced within 0 s: {MODEL}: HTTP 503 No replica")
    assert " until the end; " in row.measured


def test_a_model_without_a_ready_replica_loses_none(platform, fake):
    fake.cluster.pods = []
    (row,) = failovers(platform, 120)
    assert (row.verdict, row.measured) == (Verdict.NOT_MET, "no replica is ready")
    assert fake.cluster.deleted == []


def test_an_outage_lasts_from_the_first_refusal_to_the_next_answer():
    asked = Asked()
    for refusal, now in (("", 0.0), ("no", 1.0), ("no", 2.0), ("", 4.5), ("no", 5.0), ("", 6.0)):
        asked.note(refusal, now)
    assert (asked.answered, asked.refused, asked.outage_seconds) == (3, 3, 3.5)
    row = judged(SUBJECT, 1, asked, is_back=True, seconds=60)
    assert row.measured == "3 answered, 3 refused for 3.5 s"
