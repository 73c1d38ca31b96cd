"""Checks of model answers: the good answer of each task, and each bad one."""

import pytest

from infra.stack import Clients, Task
from scripts.accept.answers import answers, judged_first, streams
from scripts.accept.endpoint import gateways, listings
from scripts.accept.failover import failovers
from scripts.accept.row import Row, Subject, Verdict
from scripts.shared.model_client import using_keys
from tests.unit.accept.conftest import with_model
from tests.unit.accept.fake_platform import MODEL

HERE = f"{MODEL} in us-central1"


def verdicts(rows) -> dict[str, str]:
    return {f"{row.subject} {row.name}": row.verdict.value for row in rows}


def row_of(rows, subject: str) -> Row:
    (found,) = [row for row in rows if row.subject == subject]
    return found


def test_a_model_that_generates_is_asked_for_chat_completion_and_each_adapter(platform):
    assert verdicts(answers(platform)) == {
        f"chat {HERE}": "met",
        f"completion {HERE}": "met",
        f"adapter sql of {HERE}": "met",
        f"adapter support of {HERE}": "met",
    }


@pytest.mark.parametrize(
    ("task", "subject", "measured"),
    [
        (Task.EMBED, "embeddings", "a vector of 2 numbers"),
        (Task.IMAGE, "image", "a PNG of 11 bytes"),
        (Task.VIDEO, "video", "an MP4 of 12 bytes"),
        (Task.PREDICT, "prediction", "values of probability"),
    ],
)
def test_other_models_are_asked_for_what_their_task_is(fake, local, task, subject, measured):
    platform = fake.deployed(with_model(local, task=task, adapters=()))
    (row,) = answers(platform)
    assert (row.subject, row.measured, row.verdict) == (subject, measured, Verdict.MET)


def test_a_refusal_is_not_met_and_its_message_is_measured(platform, fake):
    fake.gateway.refused["sql"] = (404, "The model `sql` does not exist.")
    rows = [row for row in answers(platform) if row.verdict is Verdict.NOT_MET]
    assert [row.name for row in rows] == [f"sql of {HERE}"]
    assert rows[0].measured == "sql: HTTP 404 The model `sql` does not exist."


def with_teams(local, **teams: list[str]):
    """Return the stack with teams, each with the models and adapters that it may ask."""
    clients = Clients.model_validate({"teams": {n: {"models": tuple(m)} for n, m in teams.items()}})
    return local.model_copy(update={"clients": clients})


def test_a_model_that_no_team_may_ask_is_not_checked_and_the_others_are(fake, local):
    platform = fake.deployed(with_teams(local, data=["sql"], people=["support"]))
    rows = [*answers(platform), *streams(platform), *failovers(platform, 60)]
    assert verdicts(rows) == {
        f"chat {HERE}": "not checked",
        f"completion {HERE}": "not checked",
        f"adapter sql of {HERE}": "met",
        f"adapter support of {HERE}": "met",
        f"streaming {HERE}": "not checked",
        f"first token {HERE}": "not checked",
        f"failover {HERE}": "not checked",
    }
    assert rows[0].measured == "no team may ask it (clients.teams)"
    assert not any(row.is_unseen for row in rows)
    assert fake.cluster.deleted == []


def test_each_model_and_adapter_is_asked_with_its_own_key(fake, local):
    platform = fake.deployed(with_teams(local, data=["sql"], people=["support", MODEL]))
    with using_keys({"sql": "key-of-data", "support": "key-of-people", MODEL: "key-of-people"}):
        assert set(verdicts(answers(platform)).values()) == {"met"}
    assert fake.gateway.keys == {
        MODEL: {"Bearer key-of-people"},
        "sql": {"Bearer key-of-data"},
        "support": {"Bearer key-of-people"},
    }


def test_models_are_listed_with_the_keys_of_all_teams_together(fake, local):
    platform = fake.deployed(with_teams(local, data=["sql"], people=["support"]))
    fake.gateway.models_by_key = {"Bearer a": ["sql"], "Bearer b": ["support"]}
    with using_keys({"sql": "a", "support": "b"}):
        (row,) = listings(platform)
    assert (row.predicted, row.measured, row.verdict) == ("sql, support",) * 2 + (Verdict.MET,)
    fake.gateway.models_by_key["Bearer b"] = [MODEL]
    with using_keys({"sql": "a", "support": "b"}):
        (row,) = listings(platform)
    assert row.verdict is Verdict.NOT_MET


@pytest.mark.parametrize(("listed", "is_met"), [(["sql"], True), (["sql", "support"], False)])
def test_the_users_key_lists_what_one_team_may_ask(fake, local, monkeypatch, listed, is_met):
    monkeypatch.setenv("GKE_INFERENCE_KEY", "gki_x")
    platform = fake.deployed(with_teams(local, data=["sql"], people=["support", MODEL]))
    fake.gateway.models_by_key = {"Bearer gki_x": listed}
    (row,) = listings(platform)
    assert (row.verdict is Verdict.MET) is is_met


def test_what_the_team_of_the_users_key_may_not_ask_cannot_be_seen(fake, local, monkeypatch):
    monkeypatch.setenv("GKE_INFERENCE_KEY", "gki_x")
    refusal = "The model `sql` does not exist or you do not have access to it."
    fake.gateway.refused["sql"] = (404, refusal)
    teams = with_teams(local, data=["sql"], lab=["sql"], people=["support", MODEL])
    (row,) = [row for row in answers(fake.deployed(teams)) if row.verdict is not Verdict.MET]
    assert row.is_unseen
    assert row.measured == (
        f"sql: HTTP 404 {refusal} GKE_INFERENCE_KEY must be a key of a team that may ask it:"
        " data, lab"
    )


def test_an_answer_without_text_is_not_met(platform, fake):
    fake.gateway.text = " "
    assert row_of(answers(platform), "chat").measured == "an answer without text"


@pytest.mark.parametrize("tokens", [0, 17])
def test_a_count_of_tokens_that_cannot_be_right_is_not_met(platform, fake, tokens):
    fake.gateway.tokens = tokens
    row = row_of(answers(platform), "chat")
    assert row.verdict is Verdict.NOT_MET
    assert row.measured == f"text of {tokens} tokens; must be 1 to 16, as asked for"


def test_a_vector_of_zeros_is_not_met(fake, local):
    fake.gateway.vector = [0.0, 0.0]
    (row,) = answers(fake.deployed(with_model(local, task=Task.EMBED, adapters=())))
    assert row.verdict is Verdict.NOT_MET


def test_a_prediction_without_an_output_is_not_met(fake, local):
    fake.gateway.vector = []
    (row,) = answers(fake.deployed(with_model(local, task=Task.PREDICT, adapters=())))
    assert (row.verdict, row.measured) == (Verdict.NOT_MET, "values of no output")


def test_an_image_that_is_no_png_is_not_met(fake, local):
    fake.gateway.png = "AAAA"
    (row,) = answers(fake.deployed(with_model(local, task=Task.IMAGE, adapters=())))
    assert (row.verdict, row.measured) == (Verdict.NOT_MET, "3 bytes that are not a PNG")


def test_a_video_that_is_no_mp4_is_not_met(fake, local):
    fake.gateway.video = b"GIF89a"
    (row,) = answers(fake.deployed(with_model(local, task=Task.VIDEO, adapters=())))
    assert (row.verdict, row.measured) == (Verdict.NOT_MET, "6 bytes that are not an MP4")


def test_an_answer_in_pieces_with_usage_at_its_end_is_streamed(platform):
    rows = list(streams(platform))
    assert verdicts(rows) == {f"streaming {HERE}": "met", f"first token {HERE}": "met"}
    assert row_of(rows, "streaming").measured.startswith("6 pieces over ")
    assert row_of(rows, "first token").predicted == "500 ms (p95)"


def test_a_stream_without_usage_is_not_met(platform, fake):
    fake.gateway.has_usage = False
    row = row_of(streams(platform), "streaming")
    assert row.verdict is Verdict.NOT_MET
    assert row.measured.endswith("the last event has no usage")


def test_an_answer_that_comes_at_once_is_not_streamed(platform, fake):
    fake.gateway.text = "whole"
    row = row_of(streams(platform), "streaming")
    assert row.verdict is Verdict.NOT_MET
    assert row.measured.endswith("the answer arrived all at once")


def test_first_tokens_of_a_model_that_refuses_are_not_checked(platform, fake):
    fake.gateway.refused[MODEL] = (503, "No replica")
    rows = list(streams(platform))
    assert row_of(rows, "streaming").verdict is Verdict.NOT_MET
    assert row_of(rows, "first token").measured == "not every answer was streamed"


@pytest.mark.parametrize(
    ("limit", "verdict"),
    [(401, Verdict.MET), (400, Verdict.NOT_MET), (None, Verdict.NOT_CHECKED)],
)
def test_a_promise_about_first_tokens_is_broken_where_half_of_them_break_it(limit, verdict):
    row = judged_first(Subject("first token", "x", "y"), [100.0, 401.0, 900.0], limit)
    assert row.verdict is verdict
    assert row.measured.startswith("401 ms, the slowest 900 ms (3 requests, no load)")


def test_the_gateway_lists_exactly_the_models_and_adapters(platform, fake):
    assert row_of(listings(platform), "/v1/models").verdict is Verdict.MET
    fake.gateway.models.append("left-over")
    assert row_of(listings(platform), "/v1/models").verdict is Verdict.NOT_MET
    fake.gateway.models = [MODEL]
    row = row_of(listings(platform), "/v1/models")
    assert (row.verdict, row.measured) == (Verdict.NOT_MET, MODEL)


def test_each_region_is_asked_at_its_own_address_by_the_host_name(fake, local):
    named = local.gateway.model_copy(update={"hostname": "models.example.invalid"})
    platform = fake.deployed(local.model_copy(update={"gateway": named}))
    assert row_of(listings(platform), "/v1/models").verdict is Verdict.MET
    assert fake.gateway.hosts == [f"models.example.invalid:{fake.gateway.port}"]


def test_a_gateway_that_is_not_programmed_or_has_no_address_is_not_met(platform, fake):
    assert row_of(gateways(platform), "gateway").verdict is Verdict.MET
    addresses = fake.cluster.gateway["status"].pop("addresses")
    row = row_of(gateways(platform), "gateway")
    assert row.measured == "the gateway of us-central1 has no address"
    assert row_of(listings(platform), "/v1/models").verdict is Verdict.NOT_MET
    condition = {"type": "Programmed", "status": "False", "message": "no certificate"}
    fake.cluster.gateway["status"] = {"addresses": addresses, "conditions": [condition]}
    row = row_of(gateways(platform), "gateway")
    assert (row.verdict, row.measured) == (
        Verdict.NOT_MET,
        "is not Programmed: no certificate",
    )
