"""A platform with one endpoint over its regions: what is asked of it, and what cannot be."""

import socket
from dataclasses import replace
from typing import Any

import pytest

from infra.plan import resolve
from infra.plan.names import resolve_names
from infra.reading.load import read
from infra.stack import Exposure, Front, Layer
from scripts.accept.answers import answers
from scripts.accept.front import front_answers, front_certificates, front_listings
from scripts.accept.row import Verdict

MODELS = ["gemma-3-27b", "llama-3.1-8b", "qwen3-32b", "sql", "support"]


@pytest.fixture
def fronted(fake):
    """Return a stack over three regions, of which one lacks a model, with a global front."""
    prod = read("prod")
    gateway = prod.gateway.model_copy(
        update={"certificate": None, "front": Front.GLOBAL, "hostname": None, "dns": None}
    )
    models = {name: model for name, model in prod.models.items() if name in MODELS}
    some = ("us-central1", "europe-west4")
    models["qwen3-32b"] = models["qwen3-32b"].model_copy(update={"regions": some})
    platform = prod.model_copy(
        update={"gateway": gateway, "models": models, "images": None, "clients": None}
    )
    deployed = fake.deployed(platform)
    place = f"compute.googleapis.com/compute/v1/projects/{platform.project}/global/addresses"
    fake.google.services.add("compute.googleapis.com")
    fake.google.resources[f"{place}/{resolve_names(platform).front()}"] = {"address": "127.0.0.1"}
    fake.gateway.models = MODELS
    return deployed


def test_every_model_is_asked_by_the_plain_url_and_by_its_path_where_it_has_one(fronted, fake):
    rows = list(front_answers(fronted))
    assert [row.name for row in rows] == [
        "llama-3.1-8b through the front",
        "gemma-3-27b through the front",
        "qwen3-32b through the front",
        "qwen3-32b through the front, /models/qwen3-32b",
    ]
    assert {row.verdict for row in rows} == {Verdict.MET}
    assert fake.gateway.paths[-2:] == [
        "/v1/chat/completions",
        "/models/qwen3-32b/v1/chat/completions",
    ]


def test_the_front_lists_what_regions_with_every_model_serve(fronted, fake):
    (row,) = front_listings(fronted)
    assert row.verdict is Verdict.MET
    fake.gateway.models = [*MODELS, "stranger"]
    (row,) = front_listings(fronted)
    assert row.verdict is Verdict.NOT_MET


def test_backends_are_listed_beside_models(fronted, fake):
    backends: Any = {"gemini": None}
    changed = fronted.plan.platform.model_copy(update={"backends": backends})
    other = replace(fronted, plan=replace(fronted.plan, platform=changed))
    fake.gateway.models = [*MODELS, "gemini"]
    (row,) = front_listings(other)
    assert row.verdict is Verdict.MET


def test_a_front_without_an_address_is_not_up(fronted, fake):
    fake.google.resources = {
        path: found for path, found in fake.google.resources.items() if "addresses" not in path
    }
    (row,) = front_listings(fronted)
    assert row.verdict is Verdict.NOT_MET
    assert row.measured == "there is no address acme-prod-front: the front is not up"


@pytest.mark.parametrize("change", [{"layer": Layer.SERVING}, {"front": None}])
def test_a_front_that_is_not_there_or_of_another_stack_has_no_rows(fronted, change):
    platform = fronted.plan.platform
    gateway = platform.gateway.model_copy(update={k: v for k, v in change.items() if k == "front"})
    layer = {k: v for k, v in change.items() if k == "layer"}
    changed = platform.model_copy(update={"gateway": gateway, **layer})
    other = replace(fronted, plan=resolve(changed))
    checks = (front_certificates, front_listings, front_answers)
    assert [row for check in checks for row in check(other)] == []


def test_an_internal_gateway_that_this_machine_cannot_reach_cannot_be_seen(fake, local):
    gateway = local.gateway.model_copy(update={"exposure": Exposure.INTERNAL})
    platform = fake.deployed(local.model_copy(update={"gateway": gateway}))
    assert {row.verdict for row in answers(platform)} == {Verdict.MET}
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    own = platform.plan.platform.gateway.model_copy(update={"port": port})
    moved = platform.plan.platform.model_copy(update={"gateway": own})
    away = replace(platform, plan=resolve(moved), _reached={})
    rows = list(answers(away))
    assert all(row.is_unseen for row in rows)
    assert "run this on a machine in the VPC network" in rows[0].measured
