"""Temporary keys: few teams that may ask all models, and which key goes with which request."""

from contextlib import nullcontext
from typing import Any

import pytest

from infra.plan import Plan, resolve
from infra.reading.load import read
from infra.stack import Clients, Task
from scripts.client_keys import documents, temporary
from scripts.client_keys.permissions import few_teams, unaskable
from scripts.client_keys.temporary import temporary_keys
from scripts.operate.first_answer import first_model, unasked
from scripts.shared.model_client import KEY_VARIABLE, key_of
from tests.unit.clients.fake_secret import SecretManager, kept

MODEL = "llama-3.1-8b"
NAMES = [MODEL, "sql", "support"]


def plan_with(clients: dict[str, Any], **models: Task) -> Plan:
    """Return the plan of `local` with clients, and with copies of its model for other tasks."""
    local = read("local")
    own = local.models[MODEL]
    others = {name: own.model_copy(update={"task": task}) for name, task in models.items()}
    given = {"clients": Clients.model_validate(clients), "models": {**local.models, **others}}
    return resolve(local.model_copy(update=given))


def teams(**models: list[str] | None) -> dict[str, Any]:
    return {"teams": {name: {"models": asked and tuple(asked)} for name, asked in models.items()}}


def test_one_team_that_may_ask_everything_is_enough() -> None:
    plan = plan_with(teams(data=["sql"], people=["support", MODEL], all=None))
    assert few_teams(plan, NAMES) == dict.fromkeys(NAMES, "all")


def test_teams_share_the_models_and_what_none_may_ask_has_none() -> None:
    plan = plan_with(teams(data=["sql"], both=["sql", "support"], lab=["sql"]))
    assert few_teams(plan, NAMES) == {"sql": "both", "support": "both"}
    assert unaskable(plan, NAMES) == [MODEL]


def test_of_two_teams_the_one_with_the_higher_limits_is_used() -> None:
    limits: dict[str, dict[str, Any]] = {
        "slow": {"requests_per_minute": 6},
        "tokens": {"requests_per_minute": 60, "tokens_per_minute": 100},
        "fast": {"requests_per_minute": 60},
    }
    assert set(few_teams(plan_with({"teams": limits}), NAMES).values()) == {"fast"}


def test_what_everybody_may_ask_needs_no_other_team() -> None:
    plan = plan_with({**teams(data=["sql"]), "anonymous": "behind another gateway"})
    assert few_teams(plan, NAMES) == dict.fromkeys(NAMES, "anonymous")


def test_a_stack_without_teams_has_nobody_to_refuse() -> None:
    plan = resolve(read("local"))
    assert few_teams(plan, NAMES) == {}
    assert unaskable(plan, NAMES) == []


@pytest.fixture
def manager(monkeypatch: pytest.MonkeyPatch) -> SecretManager:
    """The secret of the keys, which the gate need not read."""
    manager = SecretManager()
    opened = lambda *_, **__: nullcontext(kept(manager))  # noqa: E731
    monkeypatch.setattr(temporary, "open_secret", opened)
    monkeypatch.setattr(temporary, "_UNTIL_READ_SECONDS", 0)
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    return manager


def test_each_model_has_the_key_of_its_team_until_the_end(manager: SecretManager) -> None:
    plan = plan_with(teams(data=["sql"], people=["support", MODEL]))
    with temporary_keys("x", plan, NAMES):
        of_data, of_people = documents.parse(manager.versions[-1]).keys
        assert (of_data.team, of_people.team) == ("data", "people")
        sent = {name: (key_of(name) or "").split("_")[1] for name in NAMES}
        assert sent == {"sql": of_data.id, "support": of_people.id, MODEL: of_people.id}
        assert key_of("/v1/models") in {key_of("sql"), key_of("support")}
    assert key_of("sql") is None
    assert documents.parse(manager.versions[-1]).keys == []


def test_the_keys_are_revoked_after_a_failure(manager: SecretManager) -> None:
    plan = plan_with(teams(data=["sql"]))
    with pytest.raises(LookupError), temporary_keys("x", plan, NAMES):
        raise LookupError
    assert documents.parse(manager.versions[-1]).keys == []


def test_models_are_listed_with_a_key_where_none_may_be_asked(manager: SecretManager) -> None:
    with temporary_keys("x", plan_with(teams(data=["sql"])), []):
        assert (key_of("/v1/models") or "").startswith("gki_")


def test_the_users_key_is_used_instead(
    manager: SecretManager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "gki_own")
    with temporary_keys("x", plan_with(teams(data=["sql"])), NAMES):
        assert {key_of(name) for name in NAMES} == {"gki_own"}
    assert manager.versions == []


def test_up_asks_a_model_that_generates_text_and_that_a_team_may_ask() -> None:
    assert first_model(plan_with(teams(data=None))) == MODEL
    plan = plan_with(
        teams(data=["fraud", "flux", "other"]),
        fraud=Task.PREDICT, flux=Task.IMAGE, other=Task.GENERATE,
    )  # fmt: skip
    assert first_model(plan) == "other"
    assert unasked(plan) == [MODEL]


def test_up_asks_a_model_of_another_task_where_none_generates_text() -> None:
    plan = plan_with(teams(data=["fraud", "flux"]), fraud=Task.PREDICT, flux=Task.IMAGE)
    assert first_model(plan) == "flux"
    plan = plan_with(teams(data=["fraud"]), fraud=Task.PREDICT)
    assert first_model(plan) == "fraud"


def test_up_asks_nothing_where_no_team_may_ask_a_model() -> None:
    assert first_model(plan_with(teams(data=["sql"]))) is None


def test_the_model_of_the_answer_cache_needs_no_team() -> None:
    clients = {
        "teams": {"data": {"models": (MODEL,), "cached_answers": True}},
        "cache": {"embeddings": "vectors"},
    }
    assert unasked(plan_with(clients, vectors=Task.EMBED, rank=Task.EMBED)) == ["rank"]
