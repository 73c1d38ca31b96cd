"""A cheaper model answers once a team's budget is spent: rules, shares of regions, and objects."""

import json
import re
from typing import Any

import pytest

from gke_inference.gateway.router import router_objects
from gke_inference.namespace.network_policies import network_policies
from infra.deploy.clients_arguments import gate_args
from infra.deploy.ingress import ingress_args
from infra.plan import resolve
from infra.reading.load import parse
from infra.stack.problems import StackError
from tests.contract.infra.broken_stacks import edited

LARGE = ["gemma-3-27b", "qwen3-32b"]
CHEAP = {"input_usd_per_million": 1, "output_usd_per_million": 1}
MORE = {"input_usd_per_million": 1, "output_usd_per_million": 4}
PRICES = {"gemma-3-27b": CHEAP, "llama-3.3-70b": CHEAP, "qwen3-32b": MORE}
REGION = "us-central1"


def platform_with(*edits: dict[str, Any], spent: dict[str, Any] | None = None, **more: Any) -> Any:
    """Return prod with a team whose cheaper model is gemma."""
    cheaper = {"model": "gemma-3-27b", "monthly_usd": 30, **(spent or {})}
    team = {"models": LARGE, "monthly_usd": 100, "when_spent": cheaper, **more}
    team = {name: value for name, value in team.items() if value is not None}
    clients = {"teams": {"shop": team, "other": {}}, "prices": PRICES}
    return parse(json.dumps(edited("prod", [{"at": ["clients"], "value": clients}, *edits])))


def at(*path: str, value: Any) -> dict[str, Any]:
    return {"at": list(path), "value": value}


def test_the_gate_of_each_region_has_its_share_and_the_models_that_are_replaced() -> None:
    platform = platform_with()
    region = resolve(platform).regions[REGION]
    assert region.gate is not None
    args = gate_args(region.gate, region, platform.gateway, [])
    assert args.get("replaced_models") == {"shop": ["qwen3-32b"]}
    spent = args["teams"]["shop"].when_spent
    assert spent is not None
    assert (spent.model, spent.monthly_usd, spent.unlimited) == ("gemma-3-27b", 10, False)
    assert args["teams"]["other"].when_spent is None


def test_a_network_policy_lets_the_body_router_ask_the_gate() -> None:
    region = resolve(platform_with()).regions[REGION]
    (opened, *_) = network_policies("models", ingress_args(region))["client-gate"]["spec"][
        "ingress"
    ]
    router = {"matchLabels": {"app.kubernetes.io/component": "body-router"}}
    assert opened == {
        "from": [{"podSelector": router}],
        "ports": [{"port": 9010, "protocol": "TCP"}],
    }


def test_a_deployment_starts_the_body_router_with_the_address_of_the_gate(deployed) -> None:
    seen = deployed(platform_with())
    routers = [
        pod.inputs["spec"]["template"]["spec"]["containers"][0]["args"]
        for pod in seen.all("kubernetes:apps/v1:Deployment")
        if pod.inputs["metadata"]["labels"]["app.kubernetes.io/component"] == "body-router"
    ]
    assert len(routers) == 3
    for args in routers:
        assert args[-2:] == ["--gate=client-gate.models.svc:9010", "--asked=qwen3-32b"]


def test_a_router_without_such_teams_asks_nobody() -> None:
    (pod,) = [one for one in router_objects("r", "models", 2, 2) if one["kind"] == "Deployment"]
    text = json.dumps(pod)
    assert "--gate" not in text
    assert "--asked" not in text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"monthly_usd": None}, "when_spent needs 'monthly_usd' of the team"),
        ({"spent": {"monthly_usd": None}}, "must have either 'monthly_usd' or 'unlimited': true"),
        ({"spent": {"unlimited": True}}, "must have either 'monthly_usd' or 'unlimited': true"),
        ({"spent": {"monthly_usd": 0.02}}, "when_spent.monthly_usd must give us-central1"),
        ({"spent": {"model": "llama-3.1-8b"}}, "when_spent.model must be one of gemma-3-27b"),
        ({"spent": {"model": "qwen3-embedding-0.6b"}}, "when_spent.model must be one of gemma"),
        ({"models": ["gemma-3-27b"]}, "when_spent needs a model of the team that it answers for"),
        (
            {"models": [*LARGE, "llama-3.3-70b"]},
            "must have a lower price in clients.prices than each model",
        ),
    ],
)
def test_a_substitute_is_refused_that_could_not_answer_or_would_not_end(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(StackError, match=re.escape(message)):
        platform_with(**change)


def test_a_substitute_accepts_images_where_what_it_answers_for_does() -> None:
    prices = {**PRICES, "gemma-3-27b": MORE, "qwen3-32b": CHEAP}
    with pytest.raises(StackError, match="must accept images, as what it answers for"):
        platform_with(at("clients", "prices", value=prices), spent={"model": "qwen3-32b"})


def test_a_substitute_of_which_nobody_knows_whether_it_accepts_images_is_taken() -> None:
    prices = {**PRICES, "gemma-3-27b": MORE, "qwen3-32b": CHEAP}
    weights = at("models", "qwen3-32b", "weights", value="gs://acme-prod-models/gemma-4-31b-it")
    platform = platform_with(
        at("clients", "prices", value=prices), weights, spent={"model": "qwen3-32b"}
    )
    assert platform.clients.teams["shop"].when_spent.model == "qwen3-32b"


def test_a_substitute_has_the_context_of_what_it_answers_for() -> None:
    price = at("clients", "prices", "llama-3.3-70b", value=MORE)
    with pytest.raises(StackError, match="least the context of what it answers for, 65536"):
        platform_with(price, models=["gemma-3-27b", "llama-3.3-70b"])


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (
            at("models", "gemma-3-27b", "regions", value=["us-central1", "europe-west4"]),
            "must run in every region of what it answers for, also in asia-northeast1",
        ),
        (
            at("models", "gemma-3-27b", "engine", value="tgi"),
            "must serve /v1/responses and /v1/messages, as what it answers for",
        ),
    ],
)
def test_a_substitute_is_where_the_others_are_and_has_their_apis(
    edit: dict[str, Any], message: str
) -> None:
    with pytest.raises(StackError, match=re.escape(message)):
        platform_with(edit)
